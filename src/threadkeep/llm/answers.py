"""Parse a provider's answer: the pieces to show while it streams, and the `ModelReply` or the error at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum, auto
from typing import Final

from threadkeep.dialects import Delta, Dialect, Reply, Speech
from threadkeep.dialects.raw_json import ABSENT, Fields, read_fields, read_value
from threadkeep.dialects.sse import EventReader
from threadkeep.errors import ModelUnavailable
from threadkeep.items import Item, ItemKind
from threadkeep.llm.base import Ending, ModelReply
from threadkeep.llm.failures import ErrorDetails, parse_error, read_failure


def read_speech(items: Iterable[Item], *, dialect: Dialect) -> Speech:
    """Return what the model said in `items`, without reasoning and calls."""
    spoken = [speech for item in items if (speech := dialect.wire.read_speech(item)).text]
    return Speech(text="\n".join(one.text for one in spoken), is_refusal=any(one.is_refusal for one in spoken))


# Some servers leave a model's thoughts, in this element, at the beginning of its text.
OPENING: Final = "<think>"
CLOSING: Final = "</think>"


class _Place(Enum):
    """A place in an answer: before it is clear how it begins, in its thoughts, between them and the text, in the text."""

    BEGINNING = auto()
    THOUGHT = auto()
    GAP = auto()
    SPEECH = auto()


class DeltaReader:
    """Reads the text of one streamed answer from chunks cut anywhere. Hostile input: it never raises."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._events = EventReader()
        self._held = ""
        self._place = _Place.BEGINNING

    def feed(self, chunk: bytes) -> list[Delta]:
        """Return the pieces in the events that end in `chunk`."""
        found = [fields for data in self._events.feed(chunk) if (fields := read_fields(data)) is not None]
        deltas = (delta for event in found if (delta := self._dialect.wire.read_delta(event)) is not None)
        return [piece for delta in deltas for piece in self._split_thoughts(delta)]

    def _split_thoughts(self, delta: Delta) -> Iterator[Delta]:
        """Separate thoughts at the beginning of an answer from its text; what may still become a tag is held back."""
        if delta.is_thought or self._place is _Place.SPEECH:
            yield delta
            return
        self._held += delta.text
        if self._place is _Place.BEGINNING:
            start = self._held.lstrip()
            if start != OPENING and OPENING.startswith(start):
                return
            self._place = _Place.THOUGHT if start.startswith(OPENING) else _Place.GAP
            self._held = start.removeprefix(OPENING)
        if self._place is _Place.THOUGHT:
            thought, closing, rest = self._held.partition(CLOSING)
            held = "" if closing else thought[len(thought) - _count_tag_start(thought) :]
            if whole := thought.removesuffix(held):
                yield Delta(text=whole, is_thought=True)
            self._place, self._held = (_Place.GAP, rest) if closing else (_Place.THOUGHT, held)
        if self._place is _Place.GAP and (words := self._held.lstrip()):
            self._place = _Place.SPEECH
            yield Delta(text=words)


def _count_tag_start(text: str) -> int:
    """Return how many characters at the end of a text may begin the closing tag."""
    return next((size for size in range(len(CLOSING) - 1, 0, -1) if text.endswith(CLOSING[:size])), 0)


# The stop reasons of an answer that was refused. Any other early end means that it ran out of room.
REFUSALS: Final = frozenset({"content_filter", "refusal", "safety"})

BROKE_OFF: Final = "its answer broke off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The parts of an answer beside its items: why it stopped, its error, its cost."""

    reason: str | None = None
    error: ErrorDetails | None = None
    cost_usd: float | None = None


class AnswerReader:
    """Reads one streamed answer from chunks cut anywhere."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._reader = dialect.wire.make_reader()
        self._events = EventReader()
        self._outcome = Outcome()
        self._new: list[Item] = []

    def feed(self, chunk: bytes) -> bool:
        """Read the next bytes; True once nothing that matters can follow."""
        for data in self._events.feed(chunk):
            if (event := read_fields(data)) is not None:
                self._outcome = _update_outcome(event, self._outcome, dialect=self._dialect)
                # The dialect's reader has the same items, but only all at once: asking it after each event would be quadratic.
                if (item := self._dialect.wire.read_finished_item(event)) is not None:
                    self._new.append(item)
        is_over = self._reader.feed(chunk)
        if is_over:
            # Items after the end of an answer do not count.
            whole = self._reader.reply.items
            self._new = [item for item in self._new if item in whole]
        return is_over

    def take_items(self) -> list[Item]:
        """Return the items that became whole since the last call, in order; none if the answer is one message.

        If this returned any item of an answer, it returned all of them.
        """
        new, self._new = self._new, []
        return new

    def reply(self, name: str, *, secrets: Sequence[str] = ()) -> ModelReply:
        """Return the whole answer of the model called `name`; see `conclude_reply` for what is raised."""
        return conclude_reply(self._reader.reply, self._outcome, name=name, dialect=self._dialect, secrets=secrets)


def read_answer(body: bytes, *, name: str, dialect: Dialect, secrets: Sequence[str] = ()) -> ModelReply:
    """Return the answer of a server that did not stream; see `conclude_reply` for what is raised."""
    answer = read_fields(body)
    outcome = Outcome() if answer is None else _update_outcome(answer, Outcome(), dialect=dialect)
    return conclude_reply(dialect.wire.read_reply(body), outcome, name=name, dialect=dialect, secrets=secrets)


def conclude_reply(reply: Reply, outcome: Outcome, *, name: str, dialect: Dialect, secrets: Sequence[str] = ()) -> ModelReply:
    """Return the answer as a `ModelReply`.

    Raises:
        ModelOverflow, ModelUnavailable, ModelRejected: The answer is an error, or broke off.
    """
    if reply.outcome == "failed":
        raise read_failure(name, outcome.error or ErrorDetails(), secrets=secrets)
    if reply.outcome == "cut":
        raise ModelUnavailable(name, reason=BROKE_OFF)
    speech = read_speech(reply.items, dialect=dialect)
    return ModelReply(
        text=speech.text,
        items=reply.items,
        ending=_choose_ending(reply, outcome.reason, refused=speech.is_refusal),
        called_tools=any(dialect.view(item).kind is ItemKind.CALL for item in reply.items),
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cached_tokens=reply.cached_tokens,
        cost_usd=outcome.cost_usd,
    )


def _choose_ending(reply: Reply, reason: str | None, *, refused: bool) -> Ending:
    if refused or reason in REFUSALS:
        return "refused"
    return "finished" if reply.outcome == "completed" else "length"


def _update_outcome(event: Fields, before: Outcome, *, dialect: Dialect) -> Outcome:
    """Return the outcome after one event, or after a whole answer. What an event leaves out stays as it was."""
    response = event.object("response") or event
    return replace(
        before,
        reason=dialect.wire.read_stop_reason(event) or before.reason,
        error=_find_error(event, response) or before.error,
        cost_usd=_read_cost(response) if before.cost_usd is None else before.cost_usd,
    )


def _find_error(event: Fields, response: Fields) -> ErrorDetails | None:
    if event.text("type") == "error" or event.span("error") != ABSENT:
        return parse_error(event)
    return parse_error(response) if response.object("error") is not None else None


def _read_cost(response: Fields) -> float | None:
    cost = read_value(response.inner("usage").span("cost"))
    if isinstance(cost, bool) or not isinstance(cost, (int, Decimal)):
        return None
    return float(cost) if 0 <= cost < 1_000_000 else None
