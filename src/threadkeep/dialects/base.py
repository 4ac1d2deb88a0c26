"""What threadkeep asks of a wire language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from threadkeep.items import Item, View

# How threadkeep's own session state begins, in every dialect: it speaks in the user's role and is no person's message.
STATE_OPENING = "The earlier part of this session was compacted."

# Stands between messages that a dialect sends as one, so that each keeps its boundaries. It is nobody's words.
SEPARATOR = "\n\n---\n\n"

# What the output of a call that was broken off says.
ABORTED = "aborted"

# Replaces a provider's own compaction that another account cannot read: the reader must know that there was a history.
UNREADABLE = "(An earlier part of this conversation was compacted by another provider, and cannot be read here.)"

Outcome = Literal["completed", "incomplete", "failed", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A provider request taken apart so that its history can be replaced and nothing else changes.

    Attributes:
        fields: Every top-level field and its exact JSON, in the order it was sent.
        head: Leading items the client writes anew for every request (system, developer); never part of the history.
        items: The history.
    """

    fields: Mapping[str, bytes]
    head: tuple[Item, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a provider.

    Attributes:
        items: Every completed output item, in output order; where the dialect streams whole items, their exact bytes.
        outcome: How the answer ended; `cut` if its end never came or could not be read.
    """

    items: tuple[Item, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    response_id: str | None = None
    outcome: Outcome = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An assistant's message that the gateway writes by itself, with what a provider would put around it."""

    text: str
    response_id: str
    message_id: str
    model: str
    created_at: int


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

    def make_state_item(self, text: str) -> Item:
        """Return the message that carries the session state."""
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

    def remove_sealed(self, item: Item) -> Item | None:
        """Return an item without what only the account it was issued to may hand back: encrypted reasoning, signed thinking.

        The very same item where it holds nothing of the kind; None where nothing would be left of it.
        """
        ...

    def blanked(self, item: Item, text: str) -> Item | None:
        """Return what goes out in place of an item whose words must not: of the same role, with the same calls and answers to
        them, saying nothing but `text`. Deterministic; None where nothing of that form can be without its words.
        """
        ...

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        """Return `items` in a form the provider accepts where its roles must alternate; untouched where they need not.

        Deterministic, and stable under appending: the arrangement of a prefix is a prefix, but for its last item.
        """
        ...


def has_sealed(item: Item, dialect: Dialect) -> bool:
    """Whether an item holds what only the account it was issued to may send back."""
    return any(mark in item.raw for mark in dialect.sealed_marks) and dialect.remove_sealed(item) is not item
