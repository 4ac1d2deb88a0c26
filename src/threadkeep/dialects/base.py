"""What threadkeep asks of a wire language: `Dialect`, and its ports for answers, for model calls and for tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from threadkeep.dialects.api import Api
from threadkeep.dialects.raw_json import Fields
from threadkeep.dialects.values import (
    Answer,
    Delta,
    Reply,
    Request,
    Speech,
)
from threadkeep.items import Item, ToolCall, View


class ReplyReader(Protocol):
    """Reads a streamed answer while it passes by. Hostile input: it never raises and never keeps what it does not need."""

    @property
    def reply(self) -> Reply:
        """What was answered so far; its outcome stays `cut` until the terminal event is complete."""
        ...

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; true once the terminal event, its closing blank line included, is among all that was fed."""
        ...


class Wire(Protocol):
    """How a dialect's answers look on the wire."""

    def make_reader(self) -> ReplyReader:
        """Return a reader for one streamed answer."""
        ...

    def read_reply(self, body: bytes) -> Reply:
        """Return the reply that an answer which was not streamed carries; `cut` if it cannot be read."""
        ...

    def render_answer_stream(self, answer: Answer) -> bytes:
        """Return the whole event stream of an answer the gateway gives by itself."""
        ...

    def render_answer(self, answer: Answer) -> bytes:
        """Return the same answer as one JSON object."""
        ...

    def render_error(self, status: int, code: str, message: str) -> bytes:
        """Return the body of an error with HTTP status `status`; clients show `message` and branch on `code`."""
        ...


class ModelCalls(Protocol):
    """Requests to a model, and what its answers say while they stream."""

    @property
    def streams_items(self) -> bool:
        """Whether an answer is several items, each complete before the next; otherwise it is one message."""
        ...

    def address_request(self, request: Request, *, model: str) -> Request:
        """Return the request as it goes out: for this model, streamed, with the fields every request needs."""
        ...

    def limit_answer(self, request: Request, *, tokens: int) -> Request:
        """Return the request with a bound on the answer; the same request where it has one already."""
        ...

    def forbid_tools(self, request: Request) -> Request:
        """Return the request with its tools switched off; the same request where that would cost the prompt cache."""
        ...

    def mark_cache_end(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return a history with a cache marker at its end, where the provider caches only what is marked."""
        ...

    def read_delta(self, event: Fields) -> Delta | None:
        """Return what an event of a streamed answer says."""
        ...

    def read_finished_item(self, event: Fields) -> Item | None:
        """Return the item an event completes, where the dialect streams items."""
        ...

    def read_stop_reason(self, event: Fields) -> str | None:
        """Return why an answer ended, where the event, or the whole answer, says so."""
        ...

    def read_speech(self, item: Item) -> Speech:
        """Return what an item of an answer says, its reasoning and its calls left out."""
        ...


class Tools(Protocol):
    """Tools offered to a model, and calls and outputs as items."""

    def define_tool(self, *, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool as a request offers it; `parameters` is a JSON schema."""
        ...

    def make_calls(self, calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
        """Return an answer that makes these calls, with `text` before them."""
        ...

    def make_output(self, call: ToolCall, text: str, *, is_error: bool = False) -> Item:
        """Return what a tool returned."""
        ...


class Dialect(Protocol):
    """One wire language. Pure: no method does I/O, none changes its arguments."""

    @property
    def name(self) -> str: ...

    @property
    def history_field(self) -> str:
        """The field of a request that holds its history."""
        ...

    @property
    def wire(self) -> Wire: ...

    @property
    def api(self) -> Api: ...

    @property
    def calls(self) -> ModelCalls: ...

    @property
    def tools(self) -> Tools: ...

    @property
    def opens_with_user(self) -> bool:
        """Whether the provider refuses a history whose first message is not in the user's role."""
        ...

    @property
    def takes_instructions_anywhere(self) -> bool:
        """Whether instructions within a history may stand before a message in the user's role."""
        ...

    @property
    def sealed_marks(self) -> Collection[bytes]:
        """Every item with sealed content holds one of these byte strings; an item without them need not be read for it."""
        ...

    def parse(self, value: object) -> Item:
        """Return the item for a decoded JSON value, in threadkeep's one fixed serialisation.

        Raises:
            InvalidItem: It is not a JSON object, or holds what JSON cannot say.
        """
        ...

    def view(self, item: Item) -> View:
        """Return what is known about an item. An unknown form is `OPAQUE`, never an error."""
        ...

    def canonical(self, item: Item) -> bytes:
        """Return the form that two spellings of the same item share; for hashing only."""
        ...

    def split(self, body: bytes) -> Request | None:
        """Take a request apart, or return None where its history is not in it or cannot be read."""
        ...

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        """Return `request` as a body whose history is its head followed by `items`."""
        ...

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        """Return a request without a history: what stands beside it, in the fields this language has for it."""
        ...

    def recognises(self, item: Item) -> bool:
        """Whether an item of unknown origin can only be of this dialect."""
        ...

    def make_user_message(self, text: str) -> Item:
        """Return a message in the user's role; the session state is one too."""
        ...

    def replace_output(self, item: Item, text: str) -> Item | None:
        """Return an output item with its payload replaced by `text`, all else untouched but a client's cache markers, which go.

        None where the item is not an output, or of a form whose payload the provider insists on.
        """
        ...

    def abort_calls(self, item: Item, calls: Collection[str]) -> list[Item]:
        """Return what closes those of the item's calls whose ids are in `calls`: outputs that say the call was aborted.

        Calls of the provider's own tools are not the client's to close; they, and ids the item does not open, yield nothing.
        """
        ...

    def make_erased_call(self, outputs: Sequence[tuple[str, Item]]) -> Item | None:
        """Return an item that calls for these outputs, by call id, and says nothing else; None where their form allows none."""
        ...

    def remove_sealed(self, item: Item) -> Item | None:
        """Return an item without what only the account it was issued to may hand back: encrypted reasoning, signed thinking.

        The very same item where it holds nothing of the kind; None where nothing would be left of it.
        """
        ...

    def blank_item(self, item: Item, text: str) -> Item | None:
        """Return what goes out in place of an item whose words must not: of the same role, with the same calls and answers to
        them, saying nothing but `text`. Deterministic; None where nothing of that form can be without its words.
        """
        ...

    def keep_host_parts(self, item: Item) -> Item | None:
        """Return a user message without the parts that hold a person's words; None where nothing is left."""
        ...

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        """Return `items` in a form the provider accepts where its roles must alternate; untouched where they need not.

        Deterministic, and stable under appending: the arrangement of a prefix is a prefix, but for its last item.
        """
        ...


def has_sealed(item: Item, dialect: Dialect) -> bool:
    """Whether an item holds what only the account it was issued to may send back."""
    return any(mark in item.raw for mark in dialect.sealed_marks) and dialect.remove_sealed(item) is not item
