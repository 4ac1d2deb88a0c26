"""What the gateway asks of the API behind a wire language: where it is, and what it expects beside the items of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from threadkeep.dialects.values import (
    Endpoints,
    HiddenCalls,
    Request,
    Target,
    ToolDefinition,
)
from threadkeep.items import Item


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
        """Return the id of the answer that a request goes on from; None where it names none."""
        ...

    def join_history(self, body: bytes, before: Sequence[Item]) -> bytes | None:
        """Return the request with its whole history, which is `before` and then its own items; None if it cannot be read."""
        ...

    def is_resumable(self, request: Request) -> bool:
        """Whether a later request may name the answer to this one."""
        ...


class AnswerFilter(Protocol):
    """Makes one streamed answer for the client out of one or several of the provider's. Hostile input: it never raises."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the provider's answer, none at its end; return what the client gets of them.

        The events that end an answer are held back.
        """
        ...

    def start_next(self) -> None:
        """Drop the events held back: the provider answers once more."""
        ...

    def end(self) -> bytes:
        """Return the end of the answer, as the client is to see it."""
        ...


class HiddenTool(Protocol):
    """A tool that the gateway adds to a client's own, runs itself and hides from the client, in one dialect."""

    def can_join(self, request: Request) -> bool:
        """Whether answers to a request can be blended, and no tool of the client's has the name."""
        ...

    def add_to(self, request: Request) -> Request:
        """Return a request with the tool behind the client's own: the cached prefix of those stays."""
        ...

    def find_calls(self, items: Sequence[Item]) -> HiddenCalls:
        """Return what the items of a reply call."""
        ...

    def make_outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        """Return what the tool returned, by call id, as items that follow the reply."""
        ...

    def join_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        """Return the client's item behind a mixed reply with our outputs in it; None where they stand as items before it."""
        ...

    def spoken_text(self, items: Sequence[Item]) -> str:
        """Return what a client's echo of a reply must say to be one: its words, without space, and the calls it makes."""
        ...

    def sealed_reasoning(self, item: Item) -> bytes | None:
        """Return what identifies reasoning that a provider refuses without the call behind it; None for any other item."""
        ...

    def make_filter(self) -> AnswerFilter:
        """Return a filter for one streamed answer."""
        ...

    def merge_answers(self, answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return one answer that was not streamed, made of several."""
        ...


class Api(Protocol):
    """The API that speaks a dialect: where it is, and what it expects beside the items of a history.

    An ability that the API lacks is None.
    """

    @property
    def endpoints(self) -> Endpoints: ...

    def read_target(self, fields: Mapping[str, bytes], *, path: str, query: str) -> Target:
        """Return which model a request asks, and for which form of answer; read leniently."""
        ...

    @property
    def head_fields(self) -> Sequence[str]:
        """The fields that say which model is asked and what it is told outside the history."""
        ...

    @property
    def thinking(self) -> BoundThinking | None: ...

    @property
    def cache_markers(self) -> CacheMarkers | None: ...

    @property
    def prompt_cache(self) -> PromptCache | None: ...

    @property
    def merger(self) -> MessageMerger | None:
        """Merges neighbours one by one; None where `Dialect.arrange` arranges the window as a whole."""
        ...

    @property
    def continuation(self) -> Continuation | None: ...

    def add_instructions(self, request: Request, text: str) -> Request:
        """Return a request whose model is told `text` behind the client's instructions."""
        ...

    def find_instructions(self, request: Request) -> str:
        """Return the first instructions of a request; empty where it has none."""
        ...

    def is_side_request(self, request: Request, *, path: str) -> bool:
        """Whether a request asks for something else than the next step of its history: a token count, a compaction."""
        ...

    def copy_delivery(self, request: Request, client: Request) -> Request:
        """Return a request of our own that is answered the way the client's request is: same model, same streaming."""
        ...

    @property
    def compaction_headers(self) -> Mapping[str, str]:
        """The headers with which the provider compacts a history when it is asked to; empty where it needs none."""
        ...

    def headers_for(self, items: Sequence[Item]) -> Mapping[str, str]:
        """Return the headers without which the provider refuses one of these items."""
        ...

    def make_hidden_tool(self, tool: ToolDefinition) -> HiddenTool:
        """Return a tool as this dialect writes it."""
        ...
