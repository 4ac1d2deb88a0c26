"""Pydantic AI: a capability that gives the model of an agent the window that fits.

    agent = Agent(model, capabilities=[ThreadkeepHistory("agent.db")])
    result = await agent.run("Ship it.", conversation_id="ship-it", message_history=history)

Before each request the run's messages are recorded, and the model is sent the thread's window: compacted if it no longer fits,
pairs whole, instructions and tools unchanged. The run's own messages stay as they are unless `replaces_history` is set. The model
gets a tool, `recall`, for what left the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from threadkeep.adapters import missing_host

try:
    from pydantic_ai import AgentRunResult, FunctionToolset, RunContext
    from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
    from pydantic_ai.models import ModelRequestContext
except ImportError as error:
    raise missing_host("Pydantic AI", error, install="'threadkeep[pydantic-ai]'") from error
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelRequestPart, ModelResponse

from threadkeep.adapters.bridge import StoreHandle, StoreName, make_thread_id
from threadkeep.adapters.host_history import fit_window, follow
from threadkeep.client import Head, Thread, Threadkeep
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.dialects import CHAT
from threadkeep.errors import InvalidArgument
from threadkeep.items import decode_json
from threadkeep.llm.base import Model
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall
from threadkeep.threads.window import close_open_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedCall:
    """What a request sends, and its thread."""

    thread_id: str
    head: Head
    messages: list[ModelMessage]


@dataclass(init=False)
class ThreadkeepHistory(AbstractCapability[Any]):
    """Sends the model windows that fit; one object may serve any number of agents and runs."""

    def __init__(
        self,
        store: StoreName = None,
        *,
        thread_id: str | None = None,
        model: str | Model | None = None,
        replaces_history: bool = False,
    ) -> None:
        """Set the store: a path, settings or an open store; None takes that of the configuration.

        Args:
            thread_id: The conversation; None takes each run's `conversation_id`.
            model: A model's name, for its limits, or a model that compactions may also ask; None takes the agent's model name.
            replaces_history: Also replace the run's own messages by the window, so that the program's history stops growing.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self.trouble: str | None = None
        """Why the last compaction that was due failed, for people; None if it did not."""
        self._handle = StoreHandle(store)
        self._thread_id = thread_id
        self._model = model
        self._replaces_history = replaces_history

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        """Send the model the window. The provider's count corrects later estimates.

        Raises:
            InvalidArgument: Neither the run nor the capability names a thread.
            CompactionStopped: A hook ended the turn.
        """
        sent = await self._handle.run_async(
            partial(self._prepare_call, request=request_context, thread_id=self._find_thread_id(ctx))
        )
        if self._replaces_history:
            ctx.messages[:] = sent.messages
        response = await handler(replace(request_context, messages=list(sent.messages)))
        if response.usage.input_tokens:
            await self._handle.run_async(partial(_record_usage, sent=sent, response=response))
        return response

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Record the last answer of the run, which no further request contains."""
        await self._handle.run_async(partial(self._follow, thread_id=self._find_thread_id(ctx), messages=result.all_messages()))
        return result

    def get_toolset(self) -> FunctionToolset[Any]:
        """Return the recall tool, which finds originals word for word, also those that were compacted away."""

        async def recall(ctx: RunContext[Any], query: str) -> str:
            work = partial(self._recall, query=query, messages=list(ctx.messages), thread_id=self._find_thread_id(ctx))
            return await self._handle.run_async(work)

        toolset: FunctionToolset[Any] = FunctionToolset()
        toolset.add_function(recall, name=NAME, description=DESCRIPTION)
        return toolset

    def _find_thread_id(self, ctx: RunContext[Any]) -> str:
        name = self._thread_id or ctx.conversation_id
        if not name:
            raise InvalidArgument(
                "conversation_id", "this run has no conversation_id; set one, or use ThreadkeepHistory(thread_id=...)"
            )
        return make_thread_id(name)

    async def _follow(
        self, tk: Threadkeep, thread_id: str, messages: Sequence[ModelMessage], *, model: str | None = None
    ) -> Thread:
        # A program may continue a conversation from an earlier message; that becomes a fork. Replaced messages look like such a
        # branch too, and must continue in the same thread.
        return await follow(
            tk,
            thread_id,
            DIALECT,
            make_items(messages),
            model=model,
            diverging="rollback" if self._replaces_history else "fork",
        )

    async def _prepare_call(self, tk: Threadkeep, *, request: ModelRequestContext, thread_id: str) -> _PreparedCall:
        model = self._model if self._model is not None else request.model.model_name
        name = model if isinstance(model, str) else model.name
        thread = await self._follow(tk, thread_id=thread_id, messages=request.messages, model=name)
        head = _make_head(request)
        window = await fit_window(thread, model=model, head=head, phase=_find_phase(request.messages))
        self.trouble = window.trouble
        # Without joining neighbours of one role: the library renders each provider's own form.
        items = close_open_calls((await thread.history()).items, dialect=thread.dialect, under_way=False)
        messages = make_messages([decode_json(item.raw) for item in items], request.messages)
        return _PreparedCall(thread_id=thread.id, head=head, messages=messages)

    async def _recall(self, tk: Threadkeep, *, query: str, messages: Sequence[ModelMessage], thread_id: str) -> str:
        return await render_recall(await self._follow(tk, thread_id=thread_id, messages=messages), query)


async def _record_usage(tk: Threadkeep, *, sent: _PreparedCall, response: ModelResponse) -> None:
    thread = await tk.thread(sent.thread_id, dialect=DIALECT)
    usage = response.usage
    await thread.record_usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, head=sent.head)


def _find_phase(messages: Sequence[ModelMessage]) -> Phase:
    newest = messages[-1]
    asked = isinstance(newest, ModelRequest) and any(isinstance(part, UserPromptPart) for part in newest.parts)
    return "pre_turn" if asked else "mid_turn"


def _make_head(request: ModelRequestContext) -> Head:
    parameters = request.model_request_parameters
    instructions = [part.content for part in parameters.instruction_parts or ()]
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]
    return Head(system="\n\n".join(instructions) or None, tools=tools)


DIALECT: Final = CHAT.name
EXTRA: Final = "pydantic_ai"
STATUS_FIELD: Final = "status"
# The timestamp of parts that threadkeep made.
OWN_TIMESTAMP: Final = "1970-01-01T00:00:00Z"
PROMPTS: Final = {"user-prompt": "user", "system-prompt": "system"}

Json = dict[str, Any]


def make_items(messages: Sequence[ModelMessage]) -> list[Json]:
    """Return a history as items. A value that JSON does not have, such as a tool's metadata, is stored as its `repr`."""
    return [item for items in _make_items_by_message(messages) for item in items]


def make_messages(window: Sequence[Json], shown: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return a window as messages, with the host's own objects where they are in it."""
    places: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for number, items in enumerate(_make_items_by_message(shown)):
        for at, item in enumerate(items):
            places[CHAT.canonical(CHAT.parse(item))].append((number, at))
    builder = _MessageBuilder()
    # Of several equal items, the window holds the newest.
    found = [(item, known.pop() if (known := places[CHAT.canonical(CHAT.parse(item))]) else None) for item in reversed(window)]
    for item, place in reversed(found):
        message = shown[place[0]] if place is not None else None
        if place is None or message is None:
            builder.add_item(item)
        elif isinstance(message, ModelRequest):
            builder.add_part(message.parts[place[1]], of=message)
        else:
            builder.add_response(message)
    return builder.finish()


class _MessageBuilder:
    """Builds messages: parts of one request stay together, and parts that threadkeep made join their neighbours."""

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._parts: list[ModelRequestPart] = []
        self._of: ModelRequest | None = None

    def add_part(self, part: ModelRequestPart, *, of: ModelRequest | None) -> None:
        if of is not None and self._of is not None and of is not self._of:
            self._close()
        self._parts.append(part)
        self._of = of or self._of

    def add_response(self, message: ModelResponse) -> None:
        self._close()
        self._messages.append(message)

    def add_item(self, item: Json) -> None:
        [message] = ModelMessagesTypeAdapter.validate_python([_make_message(item)])
        if isinstance(message, ModelRequest):
            self.add_part(message.parts[0], of=None)
        else:
            self.add_response(message)

    def finish(self) -> list[ModelMessage]:
        self._close()
        return self._messages

    def _close(self) -> None:
        if self._of is not None and [id(part) for part in self._of.parts] == [id(part) for part in self._parts]:
            self._messages.append(self._of)
        elif self._parts:
            made = ModelRequest(parts=self._parts) if self._of is None else replace(self._of, parts=self._parts)
            self._messages.append(made)
        self._parts, self._of = [], None


def _make_items_by_message(messages: Sequence[ModelMessage]) -> Iterator[list[Json]]:
    for message in ModelMessagesTypeAdapter.dump_python(list(messages), mode="json", fallback=repr):
        beside = {name: value for name, value in message.items() if name not in ("parts", "instructions") and value is not None}
        items = (
            [_make_request_item(part) for part in message["parts"]]
            if message["kind"] == "request"
            else [_make_response_item(message["parts"])]
        )
        yield [{**item, STATUS_FIELD: beside} if EXTRA in item else item for item in items]


def _make_request_item(part: Json) -> Json:
    kind = part["part_kind"]
    rest = {name: value for name, value in part.items() if name not in ("content", "tool_call_id")}
    content: Any = part.get("content")
    if kind in PROMPTS:
        item: Json = {"role": PROMPTS[kind], "content": _encode_content(content) if isinstance(content, list) else content}
    elif part.get("tool_name") and part.get("tool_call_id"):
        said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        item = {"role": "tool", "tool_call_id": part["tool_call_id"], "content": said}
        rest |= {} if isinstance(content, str) else {"is_json": True}
    else:
        item, rest = {"role": "system", "content": ""}, part
    return item if part.get("timestamp") == OWN_TIMESTAMP else {**item, EXTRA: rest}


def _make_response_item(parts: Sequence[Json]) -> Json:
    content: list[Json] = []
    calls: list[Json] = []
    rests: list[Json] = []
    for part in parts:
        rest = dict(part)
        match part["part_kind"]:
            case "text":
                content.append({"type": "text", "text": rest.pop("content")})
            case "thinking":
                content.append({"type": "thinking", "thinking": rest.pop("content")})
            case "tool-call":
                args = rest.pop("args")
                rest |= {} if isinstance(args, str) else {"is_json": True}
                called = {"name": rest.pop("tool_name"), "arguments": args if isinstance(args, str) else json.dumps(args)}
                calls.append({"id": rest.pop("tool_call_id"), "type": "function", "function": called})
            case _:
                content.append({"type": part["part_kind"]})
        rests.append(rest)
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {}), EXTRA: rests}


def _make_message(item: Json) -> Json:
    """Return an item in the library's form: a response, or a request with one part."""
    beside = item.get(STATUS_FIELD) or {}
    if item["role"] != "assistant":
        return {**beside, "kind": "request", "parts": [_make_request_part(item)]}
    content, calls = iter(item["content"]), iter(item.get("tool_calls", ()))
    return {
        **beside,
        "kind": "response",
        "parts": [_make_response_part(dict(rest), content, calls) for rest in item[EXTRA]],
    }


def _make_request_part(item: Json) -> Json:
    rest = dict(item.get(EXTRA) or {"timestamp": OWN_TIMESTAMP})
    if item["role"] == "system" and rest.get("part_kind") not in (None, "system-prompt"):
        return rest
    content: Any = item["content"]
    if item["role"] == "tool":
        content = json.loads(content) if rest.pop("is_json", False) and not _is_stub(content) else content
        return {
            "part_kind": "tool-return",
            "tool_name": "unknown",
            **rest,
            "tool_call_id": item["tool_call_id"],
            "content": content,
        }
    kind = "system-prompt" if item["role"] == "system" else "user-prompt"
    return {"part_kind": kind, **rest, "content": _decode_content(content) if isinstance(content, list) else content}


def _is_stub(content: str) -> bool:
    """Whether a line of text replaced the JSON."""
    try:
        json.loads(content)
    except ValueError:
        return True
    return False


def _make_response_part(rest: Json, content: Iterator[Json], calls: Iterator[Json]) -> Json:
    match rest["part_kind"]:
        case "text":
            return {**rest, "content": next(content)["text"]}
        case "thinking":
            return {**rest, "content": next(content)["thinking"]}
        case "tool-call":
            call = next(calls)
            arguments = call["function"]["arguments"]
            args = json.loads(arguments) if rest.pop("is_json", False) else arguments
            return {**rest, "tool_name": call["function"]["name"], "args": args, "tool_call_id": call["id"]}
        case _:
            next(content)
            return rest


def _encode_content(content: Sequence[str | Json]) -> list[Json]:
    return [{"type": "text", "text": each} if isinstance(each, str) else {"type": each["kind"], EXTRA: each} for each in content]


def _decode_content(content: Sequence[Mapping[str, object]]) -> list[Any]:
    return [each[EXTRA] if EXTRA in each else each["text"] for each in content]
