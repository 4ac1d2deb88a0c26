"""What the gateway asks of the API behind a wire language: where it is, and what it expects beside the items of a history."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Protocol

import msgspec

from threadkeep.dialects.raw_json import encode_value, join_list, read_value, split_list
from threadkeep.dialects.translation import ClientForm, UpstreamForm
from threadkeep.dialects.values import Answer, CompactionRequest, Endpoints, Frame, Request, SplitItem, Target
from threadkeep.items import Item, ToolCall

# The field with which a request asks its provider to shorten the history by itself.
MANAGEMENT: Final = "context_management"
# What does so, and from how many tokens on where a request does not say.
THRESHOLDS: Final[Mapping[str, int]] = {"compact": 150_000, "clear_tool_uses": 100_000}


class BoundThinking(Protocol):
    """Thinking that a provider signs and binds to everything before it: in another window it is refused."""

    def is_bound(self, model: str) -> bool:
        """Whether a model's thinking is bound; unknown models are taken to bind theirs."""
        ...

    def is_requested(self, request: Request) -> bool:
        """Whether a request asks for thinking."""
        ...

    def remove_thinking(self, item: Item) -> Item:
        """Return an item without its thinking, every other block with its exact bytes."""
        ...

    def drop_mismatched(self, request: Request) -> tuple[Request, Mapping[str, str]]:
        """Return a request that asks the provider to drop thinking that no longer fits, and the headers that needs.

        The same request and no header where it does not ask for thinking.
        """
        ...


class CacheMarkers(Protocol):
    """Marks that a client or the gateway sets in a request to say where a cached prefix ends. A request may hold a few."""

    def mark_item(self, items: Sequence[Item], request: Request, *, at: int) -> Item:
        """Return item `at` of a window with a marker at its end; as it is where no marker is free for it."""
        ...

    def limit_markers(self, items: Sequence[Item], request: Request) -> list[Item]:
        """Return items with their newest markers alone, as many as the request has room for."""
        ...


class PromptCache(Protocol):
    """A prompt cache that is addressed by a key, and by breakpoints in the models that know them."""

    def set_key(self, request: Request, key: str) -> Request:
        """Return a request with a cache key; the same request where the client has set one."""
        ...

    def takes_breakpoints(self, model: str, headers: Mapping[str, str]) -> bool:
        """Whether the provider of this model takes breakpoints, as far as a request tells."""
        ...

    def has_breakpoint(self, raw: bytes) -> bool: ...

    def set_breakpoint(self, item: Item) -> Item | None:
        """Return a message whose last part ends a cached prefix; None where it has no part that could."""
        ...


class ProviderCompaction(Protocol):
    """A provider that compacts histories: within an answer by itself, and when it is asked to."""

    def split(self, item: Item) -> SplitItem:
        """Split an item into the provider's compaction and the rest, every block with its exact bytes."""
        ...

    def ask(self, request: Request, *, model: str) -> tuple[CompactionRequest, ...]:
        """Return the requests that compact a history: the one to send, then those for servers that do not know it."""
        ...

    def instruct(self, request: Request, text: str) -> Request:
        """Return a request whose compaction follows `text`; the same request where the provider takes no instructions."""
        ...

    def address_turn(self, request: Request) -> tuple[Request, Mapping[str, str]]:
        """Return a request as the provider takes it behind a compaction, and the headers it needs for that."""
        ...


class MessageMerger(Protocol):
    """Merges user messages that a checkpoint made neighbours, for servers that refuse two in a row."""

    def takes_neighbours(self, model: str) -> bool:
        """Whether the provider of this model is known to accept two user messages in a row."""
        ...

    def is_user_message(self, item: Item) -> bool: ...

    def merge_messages(self, items: Sequence[Item]) -> Item:
        """Return several user messages as one: all their parts in order, with their exact bytes."""
        ...


class Continuation(Protocol):
    """Requests that name the answer they go on from, and send only what is new."""

    def read_previous(self, body: bytes) -> str | None:
        """Return the id of the answer, or the name of the checkpoint, that a request goes on from; None where it names none."""
        ...

    def read_conversation(self, body: bytes) -> str | None:
        """Return the id of the conversation that a request names in place of its history; None where it names none."""
        ...

    def make_items_path(self, conversation: str, *, after: str | None) -> str:
        """Return the path, with its query, at which a provider lists what a conversation holds behind the item `after`."""
        ...

    def find_first_items(self, body: bytes, *, path: str) -> bytes | None:
        """Return a request that has the items which a new conversation begins with; None where none is to be made."""
        ...

    def render_conversation(self, body: bytes, *, name: str, created_at: int) -> bytes:
        """Return the answer to a request that makes a conversation."""
        ...

    def read_items_page(self, page: bytes) -> tuple[list[Item], str | None] | None:
        """Return the items of such a list, and the id behind which there are more; None if it is no list of items."""
        ...

    def join_history(self, body: bytes, head: Sequence[Item], before: Sequence[Item]) -> bytes | None:
        """Return the request with its whole history, which is `head`, `before`, and its own items; None if it cannot be read."""
        ...

    def is_abridged(self, body: bytes) -> bool:
        """Whether a checkpoint of the gateway's may stand in for a part of a history that is sent whole."""
        ...

    def is_stored(self, fields: Mapping[str, bytes]) -> bool:
        """Whether the provider is asked to keep the answer, as it does unless it is told otherwise: it may be named later."""
        ...


class CompactionService(Protocol):
    """What a provider does that clients ask to compact their history for them."""

    def find_asked(self, request: Request, *, path: str) -> bytes | None:
        """Return the request that has the history to be compacted; None where no compaction is asked for."""
        ...

    def has_begun(self, stream: bytes) -> bool | None:
        """Whether the beginning of a streamed answer is one of a compaction; None while it does not tell."""
        ...

    def render_answer(self, request: Request, *, path: str, name: str, created_at: int) -> bytes:
        """Return the answer to a request, in the form it asks for: one item that says nothing but the name of a compaction."""
        ...


class Frames(Protocol):
    """The API over WebSocket. Frames are hostile input: nothing here raises."""

    def read_frame(self, data: bytes) -> Frame | None:
        """Return what a client sent; None if it is no object."""
        ...

    def make_body(self, frame: Frame, *, previous: str | None, items: Sequence[Item]) -> bytes:
        """Return the request of a frame, streamed: it goes on from `previous` with these items."""
        ...

    def read_headers(self, frame: Frame) -> Mapping[str, str]:
        """Return the headers that the request would have over HTTP and the socket's opening does not."""
        ...

    def make_create_frame(self, body: bytes, *, sent: Sequence[bytes], previous: str | None) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the frame that asks a provider what `body` asks over HTTP, and all items of the body.

        Where the body begins with `sent`, which the provider has under the id `previous`, only what follows is in the frame.
        """
        ...

    def make_empty_answer(self, answer: Answer) -> list[bytes]:
        """Return the events of an answer that says nothing."""
        ...

    def make_event(self, data: bytes, *, stream: str | None) -> bytes:
        """Return the frame of an event for a lane."""
        ...

    def make_error(self, status: int, error: object, *, stream: str | None) -> bytes:
        """Return the frame that says what an HTTP answer with this status and error would say."""
        ...

    def make_steer_event(self, outcome: str, steer: Mapping[str, object], *, stream: str | None, **more: object) -> bytes:
        """Return the frame that says what becomes of a steering: `accepted`, `pending` or `failed`."""
        ...

    def list_required(self, items: Sequence[Item], calls: Sequence[str]) -> list[dict[str, object]]:
        """Return what the client must hand over before the model can go on: the outputs of these calls."""
        ...


class Api(ABC):
    """The API that speaks a dialect: where it is, and what it expects beside the items of a history.

    An ability that the API lacks is None.

    Attributes:
        head_fields: The fields that say which model is asked and what it is told outside the history.
        delivery_fields: The fields that say which model answers a request and how the answer comes.
        merger: Merges neighbours one by one; None where `Dialect.arrange` arranges the window as a whole.
    """

    endpoints: ClassVar[Endpoints]
    head_fields: ClassVar[Sequence[str]]
    delivery_fields: ClassVar[Sequence[str]]
    compaction: ClassVar[ProviderCompaction | None] = None
    thinking: ClassVar[BoundThinking | None] = None
    cache_markers: ClassVar[CacheMarkers | None] = None
    prompt_cache: ClassVar[PromptCache | None] = None
    merger: ClassVar[MessageMerger | None] = None
    continuation: ClassVar[Continuation | None] = None
    frames: ClassVar[Frames | None] = None
    compaction_service: ClassVar[CompactionService | None] = None
    client_form: ClassVar[ClientForm | None] = None
    upstream_form: ClassVar[UpstreamForm | None] = None

    def read_target(self, fields: Mapping[str, bytes], *, path: str, query: str) -> Target:
        """Return which model a request asks, and for which form of answer; read leniently."""
        model = read_value(fields.get("model", b"null"))
        streams = fields.get("stream", b"false") == b"true"
        return Target(model=model if isinstance(model, str) else "", form="events" if streams else "whole")

    def read_window(self, model: str, headers: Mapping[str, str]) -> int | None:
        """Return the context window that a request speaks of, by its model's name and its headers; None if it does not."""
        return None

    @abstractmethod
    def add_instructions(self, request: Request, text: str) -> Request:
        """Return a request whose model is told `text` behind the client's instructions."""

    @abstractmethod
    def find_instructions(self, request: Request) -> str:
        """Return the first instructions of a request; empty where it has none."""

    def is_side_request(self, request: Request, *, path: str) -> bool:
        """Whether a request asks for something else than the next step of its history: a token count, a compaction."""
        return False

    def find_threshold(self, request: Request) -> int | None:
        """Return from how many tokens on a request asks its provider to compact the history, or to clear tool outputs."""
        value = read_value(request.fields.get(MANAGEMENT, b"null"))
        edits = value.get("edits") if isinstance(value, dict) else value
        found = map(_read_threshold, edits if isinstance(edits, list) else ())
        return min((tokens for tokens in found if tokens is not None), default=None)

    def drop_management(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers that change where a provider is not asked to manage the history; see `MANAGEMENT`."""
        return {}

    def is_count(self, path: str) -> bool:
        """Whether a request to this path asks how many tokens its history has."""
        return False

    def render_count(self, tokens: int) -> bytes:
        """Return the answer to such a request."""
        return msgspec.json.encode({"input_tokens": tokens})

    def copy_delivery(self, request: Request, client: Request) -> Request:
        """Return a request of our own that is answered the way the client's request is: same model, same streaming."""
        copied = {name: client.fields[name] for name in self.delivery_fields if name in client.fields}
        return replace(request, fields={**copied, **request.fields})

    def address_request(self, request: Request, *, model: str) -> Request:
        """Return the request as it goes out: for this model, streamed, with the fields every request needs."""
        return replace(request, fields={**request.fields, "model": msgspec.json.encode(model), "stream": b"true"})

    @abstractmethod
    def limit_answer(self, request: Request, *, tokens: int) -> Request:
        """Return the request with a bound on the answer; the same request where it has one already."""

    def forbid_tools(self, request: Request) -> Request:
        """Return the request with its tools switched off; the same request where that would cost the prompt cache."""
        return replace(request, fields={**request.fields, "tool_choice": b'"none"'}) if has_tools(request) else request

    def mark_cache_end(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return a history with a cache marker at its end, where the provider caches only what is marked."""
        return tuple(items)

    def headers_for(self, items: Sequence[Item]) -> Mapping[str, str]:
        """Return the headers without which the provider refuses one of these items."""
        return {}

    def offer_tool(self, request: Request, definition: Mapping[str, Any]) -> Request:
        """Return a request with a tool behind those that it offers already, which keep their bytes."""
        tools = [*(split_list(request.fields.get("tools", b"[]")) or ()), encode_value(definition)]
        return replace(request, fields={**request.fields, "tools": join_list(tools)})

    @abstractmethod
    def define_tool(self, *, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool as a request offers it; `parameters` is a JSON schema."""

    @abstractmethod
    def make_calls(self, calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
        """Return an answer that makes these calls, with `text` before them."""

    @abstractmethod
    def make_output(self, call: ToolCall, text: str, *, is_error: bool = False) -> Item:
        """Return what a tool returned."""


def has_tools(request: Request) -> bool:
    return request.fields.get("tools", b"[]").strip() not in (b"[]", b"null")


def _read_threshold(edit: object) -> int | None:
    if not isinstance(edit, dict):
        return None
    default = next((default for kind, default in THRESHOLDS.items() if str(edit.get("type")).startswith(kind)), None)
    trigger = edit.get("trigger")
    # A number of tool uses says nothing about tokens.
    counted = trigger.get("value") if isinstance(trigger, dict) and trigger.get("type") == "input_tokens" else None
    tokens = edit.get("compact_threshold", counted)
    return tokens if isinstance(tokens, int) and default is not None else default
