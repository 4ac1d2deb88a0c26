"""A provider's answer, from its bytes to a `ModelReply` or the error it amounts to.

The dialect's own reader says what was produced and whether the end came. Why it ended, which error it broke off with and what it
cost stands beside that, and is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from threadkeep.dialects import Dialect, Reply
from threadkeep.dialects.raw_json import ABSENT, Fields, read_fields, read_item, read_value
from threadkeep.dialects.responses.stream import TERMINAL
from threadkeep.dialects.sse import EventReader
from threadkeep.errors import ModelUnavailable
from threadkeep.items import Item, ItemKind
from threadkeep.llm.base import Ending, ModelReply
from threadkeep.llm.failures import Complaint, complaint_of, failed
from threadkeep.llm.speech import speech_in

# Why an answer that ended early ended. A reason not listed means that more was to come.
REFUSALS: Final = frozenset({"content_filter", "refusal", "safety"})

BROKE_OFF: Final = "its answer broke off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What an answer says beside what was produced."""

    reason: str | None = None
    complaint: Complaint | None = None
    cost_usd: float | None = None


class AnswerReader:
    """Reads one streamed answer from chunks cut anywhere."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._reader = dialect.wire.make_reader()
        self._events = EventReader()
        self._beside = Circumstances()
        self._is_over = False
        self._new: list[Item] = []

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; true once nothing that matters can follow."""
        for data in self._events.feed(chunk):
            if (event := read_fields(data)) is not None:
                self._beside = _noticed(event, self._beside)
                self._take_item(event)
        return self._reader.feed(chunk)

    def new_items(self) -> list[Item]:
        """Return the items that became whole since it was last asked, as they came; none where an answer is one message.

        An answer of which any item was told so holds no other.
        """
        new, self._new = self._new, []
        return new

    def reply(self, name: str, *, secrets: Sequence[str] = ()) -> ModelReply:
        """Return the whole answer of the model called `name`; see `concluded` for what is raised."""
        return concluded(self._reader.reply, self._beside, name=name, dialect=self._dialect, secrets=secrets)

    def _take_item(self, event: Fields) -> None:
        # The dialect's reader has the same items, but only all of them at once: looking there for each costs their square.
        if self._is_over or self._dialect.name != "responses":
            return
        kind = event.text("type")
        self._is_over = kind in TERMINAL
        if kind == "response.output_item.done" and (item := read_item(event.span("item"))) is not None:
            self._new.append(item)


def answer_in(body: bytes, *, name: str, dialect: Dialect, secrets: Sequence[str] = ()) -> ModelReply:
    """Return the answer of a server that does not stream, though it was asked to; see `concluded` for what is raised."""
    answer = read_fields(body)
    beside = Circumstances() if answer is None else _noticed(answer, Circumstances())
    return concluded(dialect.wire.read_reply(body), beside, name=name, dialect=dialect, secrets=secrets)


def concluded(reply: Reply, beside: Circumstances, *, name: str, dialect: Dialect, secrets: Sequence[str] = ()) -> ModelReply:
    """Return what was answered, if it was answered.

    Raises:
        ModelOverflow, ModelUnavailable, ModelRejected: The answer failed, for the reason it gives; it broke off.
    """
    if reply.outcome == "failed":
        raise failed(name, beside.complaint or Complaint(), secrets=secrets)
    if reply.outcome == "cut":
        raise ModelUnavailable(name, reason=BROKE_OFF)
    speech = speech_in(reply.items, dialect=dialect.name)
    return ModelReply(
        text=speech.text,
        items=reply.items,
        ending=_ending(reply, beside.reason, refused=speech.refused),
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


def _noticed(event: Fields, before: Circumstances) -> Circumstances:
    """Return the circumstances after one event, or after a whole answer. What an event leaves out stays as it was."""
    response = event.object("response") or event
    return replace(
        before,
        reason=_reason(event, response) or before.reason,
        complaint=_complaint(event, response) or before.complaint,
        cost_usd=_cost(response) if before.cost_usd is None else before.cost_usd,
    )


def _reason(event: Fields, response: Fields) -> str | None:
    """Return why the answer ended, where any of the dialects' places for it says so."""
    choices = [read_fields(choice) for choice in event.elements("choices") or []]
    places = (
        response.inner("incomplete_details").text("reason"),
        event.inner("delta").text("stop_reason"),
        event.text("stop_reason"),
        *(choice.text("finish_reason") for choice in choices if choice is not None and not choice.count("index")),
    )
    return next((reason for reason in places if reason), None)


def _complaint(event: Fields, response: Fields) -> Complaint | None:
    if event.text("type") == "error" or event.span("error") != ABSENT:
        return complaint_of(event)
    return complaint_of(response) if response.object("error") is not None else None


def _cost(response: Fields) -> float | None:
    cost = read_value(response.inner("usage").span("cost"))
    if isinstance(cost, bool) or not isinstance(cost, (int, Decimal)):
        return None
    return float(cost) if 0 <= cost < 1_000_000 else None
