"""What must be known of a dialect to hide a tool's calls in its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from threadkeep.items import Item
from threadkeep.recall.tool import DESCRIPTION

Json = dict[str, Any]

NAME: Final = "threadkeep_recall"
ABOUT: Final = DESCRIPTION
# Between what a model said before it looked something up and after, where a dialect has one text for both.
APART: Final = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCall:
    """The model asks for something; `query` is None where what it wrote cannot be read."""

    call_id: str
    query: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What one answer of the provider calls: our tool, and whether one of the client's too."""

    ours: tuple[RecallCall, ...]
    others: bool


class Veil(Protocol):
    """Makes one streamed answer for the client out of one or several of the provider's. Hostile input: it never raises."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the provider's answer, none at its end; return what the client gets of them.

        What ends an answer is held back.
        """
        ...

    def go_on(self) -> None:
        """What was held back is not for the client: the provider answers once more."""
        ...

    def end(self) -> bytes:
        """Return the end of the answer, as the client is to see it."""
        ...


class Form(Protocol):
    """One dialect."""

    def definition(self) -> Json:
        """Return the tool as it stands among a request's tools."""
        ...

    def is_named(self, tool: Json, name: str) -> bool:
        """Whether a client's tool has that name."""
        ...

    def calls_in(self, items: Sequence[Item]) -> Calls:
        """Return what the items of an answer call."""
        ...

    def outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        """Return what our calls returned, by call id, as items that follow the answer."""
        ...

    def with_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        """Return the client's item behind a mixed answer with our outputs in it; None where they stand as items before it."""
        ...

    def said(self, items: Sequence[Item]) -> str:
        """Return what a client's echo of an answer must say to be one: its words, without space, and the calls it makes."""
        ...

    def veil(self) -> Veil: ...

    def merged(self, answers: Sequence[Json]) -> Json:
        """Return one answer that was not streamed, made of several."""
        ...


def query_in(arguments: object) -> str | None:
    """Return the question in a call's arguments."""
    query = arguments.get("query") if isinstance(arguments, dict) else None
    return query if isinstance(query, str) and query.strip() else None


def bare(text: str) -> str:
    """Return a text without its spaces: clients trim what they echo."""
    return "".join(text.split())


def added(first: object, second: object) -> int | None:
    """Return the sum of two counts, where there are any."""
    known = [each for each in (first, second) if isinstance(each, int) and not isinstance(each, bool)]
    return sum(known) if known else None
