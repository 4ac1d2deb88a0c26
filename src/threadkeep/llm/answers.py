"""A provider's answer: its bytes, the pieces that are shown while it streams, and the `ModelReply` or the error it amounts to."""

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
    """Return what the model said in `items`, its reasoning and its calls left out."""
    spoken = [speech for item in items if (speech := dialect.calls.read_speech(item)).text]
    return Speech(text="\n".join(one.text for one in spoken), is_refusal=any(one.is_refusal for one in spoken))


# Servers that do not take a model's thoughts apart leave them, in this element, at the beginning of what it says.
OPENING: Final = "<think>"
CLOSING: Final = "</think>"


class _Place(Enum):
    """Where in an answer we are: before it is known how it begins, in its thoughts, right behind them, in what it says."""

    BEGINNING = auto()
    THOUGHT = auto()
    GAP = auto()
    SPEECH = auto()


class DeltaReader:
    """Reads the words out of one streamed answer from chunks cut anywhere. Hostile input: it never raises."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._events = EventReader()
        self._held = ""
        self._place = _Place.BEGINNING

    def feed(self, chunk: bytes) -> list[Delta]:
        """Return what was said in the events that end in `chunk`."""
        found = [fields for data in self._events.feed(chunk) if (fields := read_fields(data)) is not None]
        deltas = (delta for event in found if (delta := self._dialect.calls.read_delta(event)) is not None)
        return [told for delta in deltas for told in self._apart(delta)]

    def _apart(self, delta: Delta) -> Iterator[Delta]:
        """Tell thoughts at the beginning of an answer from what it says; what may still become a tag is held back."""
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
            held = "" if closing else thought[len(thought) - _begun(thought) :]
            if told := thought.removesuffix(held):
                yield Delta(text=told, is_thought=True)
            self._place, self._held = (_Place.GAP, rest) if closing else (_Place.THOUGHT, held)
        if self._place is _Place.GAP and (words := self._held.lstrip()):
            self._place = _Place.SPEECH
            yield Delta(text=words)


def _begun(text: str) -> int:
    """Return how many characters at the end of a text may be the beginning of the closing."""
    return next((size for size in range(len(CLOSING) - 1, 0, -1) if text.endswith(CLOSING[:size])), 0)


# Why an answer that ended early ended. A reason not listed means that more was to come.
REFUSALS: Final = frozenset({"content_filter", "refusal", "safety"})

BROKE_OFF: Final = "its answer broke off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What an answer says beside what was produced."""

    reason: str | None = None
    complaint: ErrorDetails | None = None
    cost_usd: float | None = None


class AnswerReader:
    """Reads one streamed answer from chunks cut anywhere."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._reader = dialect.wire.make_reader()
        self._events = EventReader()
        self._beside = Circumstances()
        self._new: list[Item] = []

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; true once nothing that matters can follow."""
        for data in self._events.feed(chunk):
            if (event := read_fields(data)) is not None:
                self._beside = _noticed(event, self._beside, dialect=self._dialect)
                # The dialect's reader has the same items, but only all of them at once: asking it each time costs their square.
                if (item := self._dialect.calls.read_finished_item(event)) is not None:
                    self._new.append(item)
        is_over = self._reader.feed(chunk)
        if is_over:
            # What follows the end of an answer is no item of it.
            whole = self._reader.reply.items
            self._new = [item for item in self._new if item in whole]
        return is_over

    def new_items(self) -> list[Item]:
        """Return the items that became whole since it was last asked, as they came; none where an answer is one message.

        An answer of which any item was told so holds no other.
        """
        new, self._new = self._new, []
        return new

    def reply(self, name: str, *, secrets: Sequence[str] = ()) -> ModelReply:
        """Return the whole answer of the model called `name`; see `conclude_reply` for what is raised."""
        return conclude_reply(self._reader.reply, self._beside, name=name, dialect=self._dialect, secrets=secrets)


def read_answer(body: bytes, *, name: str, dialect: Dialect, secrets: Sequence[str] = ()) -> ModelReply:
    """Return the answer of a server that does not stream, though it was asked to; see `conclude_reply` for what is raised."""
    answer = read_fields(body)
    beside = Circumstances() if answer is None else _noticed(answer, Circumstances(), dialect=dialect)
    return conclude_reply(dialect.wire.read_reply(body), beside, name=name, dialect=dialect, secrets=secrets)


def conclude_reply(
    reply: Reply, beside: Circumstances, *, name: str, dialect: Dialect, secrets: Sequence[str] = ()
) -> ModelReply:
    """Return what was answered, if it was answered.

    Raises:
        ModelOverflow, ModelUnavailable, ModelRejected: The answer failed, for the reason it gives; it broke off.
    """
    if reply.outcome == "failed":
        raise read_failure(name, beside.complaint or ErrorDetails(), secrets=secrets)
    if reply.outcome == "cut":
        raise ModelUnavailable(name, reason=BROKE_OFF)
    speech = read_speech(reply.items, dialect=dialect)
    return ModelReply(
        text=speech.text,
        items=reply.items,
        ending=_ending(reply, beside.reason, refused=speech.is_refusal),
        called_tools=any(dialect.view(item).kind is ItemKind.CALL for item in reply.items),
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cached_tokens=reply.cached_tokens,
        cost_usd=beside.cost_usd,
    )


def _ending(reply: Reply, reason: str | None, *, refused: bool) -> Ending:
    if refused or reason in REFUSALS:
        return "refused"
    return "finished" if reply.outcome == "completed" else "length"


def _noticed(event: Fields, before: Circumstances, *, dialect: Dialect) -> Circumstances:
    """Return the circumstances after one event, or after a whole answer. What an event leaves out stays as it was."""
    response = event.object("response") or event
    return replace(
        before,
        reason=dialect.calls.read_stop_reason(event) or before.reason,
        complaint=_complaint(event, response) or before.complaint,
        cost_usd=_cost(response) if before.cost_usd is None else before.cost_usd,
    )


def _complaint(event: Fields, response: Fields) -> ErrorDetails | None:
    if event.text("type") == "error" or event.span("error") != ABSENT:
        return parse_error(event)
    return parse_error(response) if response.object("error") is not None else None


def _cost(response: Fields) -> float | None:
    cost = read_value(response.inner("usage").span("cost"))
    if isinstance(cost, bool) or not isinstance(cost, (int, Decimal)):
        return None
    return float(cost) if 0 <= cost < 1_000_000 else None
