"""threadkeep inside LiteLLM: the proxy, the Router, or the SDK.

In the proxy's config: `litellm_settings: {callbacks: [threadkeep.adapters.litellm.hook]}`. In a program:
`litellm.callbacks = [ThreadkeepHook("agent.db")]`. A client sends its whole history; the provider gets the window of the thread
that holds it, compacted if necessary. Only chat completions are rewritten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from threadkeep.adapters import missing_host

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise missing_host("LiteLLM", error, install="'litellm[proxy]'") from error

import msgspec

from threadkeep.adapters.bridge import StoreHandle, StoreName, make_thread_id, open_thread
from threadkeep.adapters.host_history import fit_window, follow, record_reply
from threadkeep.client import Head, Thread, Threadkeep, Window
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.dialects import CHAT
from threadkeep.errors import InvalidItem, ThreadkeepError
from threadkeep.recall.tool import render_recall
from threadkeep.tokens import Limits, estimate_bytes, estimate_text

log = logging.getLogger("threadkeep.litellm")

Json = dict[str, Any]

DIALECT: Final = CHAT.name
INSTRUCTION_ROLES: Final = ("system", "developer")
# The metadata key of a request that was rewritten, for later hooks.
MARK: Final = "threadkeep"
CALLS: Final = frozenset({"completion", "acompletion"})
# Metadata keys of a conversation's name, the most specific first.
NAMES: Final = ("session_id", "conversation_id")
UNNAMED: Final = "litellm"

Conversation = Callable[[Mapping[str, object]], str | None]


def conversation_of(call: Mapping[str, object]) -> str | None:
    """Return the name of a call's conversation; None if it has none.

    It is `litellm_session_id`, which the proxy also reads from the header `x-litellm-session-id`, or `session_id` or
    `conversation_id` in the metadata.
    """
    metadata = _find_metadata(call)
    for name in (call.get("litellm_session_id"), *(metadata.get(key) for key in NAMES)):
        if isinstance(name, str) and name:
            return name
    return None


class ThreadkeepHook(CustomLogger):  # type: ignore[misc]  # the host's class, which the type checker cannot see
    """Records the history that clients send, and sends windows in its place.

    Conversations of different proxy keys never mix, whatever their names. Conversations without a name, or with the same name,
    are told apart by their content. If anything fails, the request is sent unchanged.
    """

    def __init__(self, store: StoreName = None, *, conversation: Conversation = conversation_of) -> None:
        """Set the store, and the function that finds a conversation's name in a call.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        super().__init__()
        self._handle = StoreHandle(store)
        self._conversation = conversation

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Json, call_type: str) -> Json:
        """Rewrite a request of the proxy before it is routed."""
        return await self._rewrite(data, call_type, owner=str(getattr(user_api_key_dict, "api_key", None) or ""))

    async def async_pre_call_deployment_hook(self, kwargs: Json, call_type: Any) -> Json:
        """Rewrite a call of the Router or the SDK, at each try."""
        return await self._rewrite(kwargs, str(getattr(call_type, "value", call_type)), owner=_find_owner(_find_metadata(kwargs)))

    async def async_log_success_event(self, kwargs: Json, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Record the reply and the provider's counts."""
        marked = _find_metadata(kwargs.get("litellm_params") or {}).get(MARK)
        if not isinstance(marked, Mapping):
            return
        usage = getattr(response_obj, "usage", None)
        answered = [_to_json(choice.message) for choice in getattr(response_obj, "choices", ())[:1] if hasattr(choice, "message")]

        async def write(tk: Threadkeep) -> None:
            await record_reply(
                tk,
                str(marked["thread"]),
                answered,
                estimated_tokens=int(marked["tokens"]),
                input_tokens=getattr(usage, "prompt_tokens", None),
                output_tokens=getattr(usage, "completion_tokens", None),
            )

        try:
            await self._handle.run_async(write)
        except ThreadkeepError as error:
            log.warning("a reply could not be recorded: %s", error.code)

    def window(self, messages: Sequence[Any], *, conversation: str, model: str | None = None) -> list[Json]:
        """Return what to send in place of `messages`, for `litellm.completion`, which calls no hook before it sends.

        Raises:
            ThreadkeepError: The messages cannot be recorded or read.
        """
        head, items = _split_head([_to_json(message) for message in messages])
        request = _Request(thread_id=make_thread_id(conversation), items=items, head=Head(_join_text(head)), model=model)
        return [*head, *self._handle.run(request.prepare)[0]]

    async def recall(self, query: str, *, conversation: str) -> str:
        """Return originals of a conversation that match `query`, for a tool of the program."""

        async def look(tk: Threadkeep) -> str:
            return await render_recall(await open_thread(tk, conversation, dialect=DIALECT), query)

        return await self._handle.run_async(look)

    async def _rewrite(self, call: Json, call_type: str, *, owner: str) -> Json:
        messages = call.get("messages")
        if call_type not in CALLS or not isinstance(messages, list) or MARK in _find_metadata(call):
            return call
        try:
            head, items = _split_head([_to_json(message) for message in messages])
            request = _Request(
                thread_id=self._make_thread_id(call, owner=owner),
                items=items,
                head=Head(_join_text(head), call.get("tools") or ()),
                model=str(call["model"]) if call.get("model") else None,
            )
            window, mark = await self._handle.run_async(request.prepare)
        except ThreadkeepError as error:
            # Only the code: the text may quote what the client sent.
            log.warning("a request was sent unchanged: %s", error.code)
            return call
        if window.trouble is not None:
            log.warning("a compaction that was due failed: %s", window.trouble)
        sent = messages if window.checkpoint is None else [*head, *window]
        return {**call, "messages": sent, "metadata": {**_find_metadata(call), MARK: mark}}

    def _make_thread_id(self, call: Mapping[str, object], *, owner: str) -> str:
        """Return the thread id of a call, made of its key and its conversation's name."""
        name = self._conversation(call) or UNNAMED
        return make_thread_id(f"{owner}:{name}" if owner else name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A client's history and the head sent with it."""

    thread_id: str
    items: list[Json]
    head: Head
    model: str | None

    async def prepare(self, tk: Threadkeep) -> tuple[Window, Json]:
        """Record what is new, compact if necessary, and return the window and its mark for later hooks."""
        followed = await follow(tk, self.thread_id, DIALECT, self.items, model=self.model, diverging="fork")
        thread = Thread(_extend_limits(tk, self.model), followed.id, dialect=followed.dialect)
        phase: Phase = "pre_turn" if self.items and self.items[-1].get("role") == "user" else "mid_turn"
        window = await fit_window(thread, model=self.model, head=self.head, phase=phase, to_send=True)
        beside = estimate_text(self.head.system or "") + estimate_bytes(len(msgspec.json.encode(list(self.head.tools))))
        return window, {"thread": thread.id, "tokens": window.tokens + beside}


def _extend_limits(tk: Threadkeep, model: str | None) -> Backend:
    """Return the backend with LiteLLM's window of the model, if the configuration has none."""
    backend = tk.backend
    if model is None or any(model.startswith(name) for name in backend.limits_by_model):
        return backend
    known = litellm.model_cost.get(model) or litellm.model_cost.get(model.partition("/")[2]) or {}
    tokens = known.get("max_input_tokens")
    if not isinstance(tokens, int) or tokens < 1:
        return backend
    limits = Limits.of_window(tokens, auto_limit=tk.config.model_auto_compact_token_limit)
    return replace(backend, limits_by_model={**backend.limits_by_model, model: limits})


def _split_head(messages: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """Split messages into the leading instructions and the history."""
    at = 0
    while at < len(messages) and messages[at].get("role") in INSTRUCTION_ROLES:
        at += 1
    return list(messages[:at]), list(messages[at:])


def _to_json(message: Any) -> Json:
    """Return a message as JSON; programs put LiteLLM's own objects into their history."""
    if isinstance(message, Mapping):
        return dict(message)
    dump = getattr(message, "model_dump", None)
    plain = dump(mode="json", exclude_none=True) if callable(dump) else None
    if not isinstance(plain, dict):
        raise InvalidItem(dialect=DIALECT, reason=f"a message was expected, not {type(message).__name__}")
    return plain


def _join_text(head: Sequence[Json]) -> str | None:
    return "\n".join(CHAT.view(CHAT.parse(message)).text for message in head) or None


def _find_metadata(call: Mapping[str, object]) -> Mapping[str, object]:
    found = call.get("metadata") or call.get("litellm_metadata")
    return found if isinstance(found, Mapping) else {}


def _find_owner(metadata: Mapping[str, object]) -> str:
    """Return the proxy's name of the key of a call; empty outside the proxy."""
    return str(metadata.get("user_api_key_hash") or metadata.get("user_api_key") or "")


def __getattr__(name: str) -> ThreadkeepHook:
    """Make `hook`, which the proxy's config names, on first use; programs make their own."""
    if name == "hook":
        globals()["hook"] = made = ThreadkeepHook()
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
