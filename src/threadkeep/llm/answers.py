"""A provider's answer: its bytes, the pieces that are shown while it streams, and the `ModelReply` or the error it amounts to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Final

from threadkeep.dialects import Dialect, Reply
from threadkeep.dialects.raw_json import ABSENT, Fields, read_fields, read_item, read_object, read_value
from threadkeep.dialects.responses.stream import TERMINAL
from threadkeep.dialects.sse import EventReader
from threadkeep.errors import ModelUnavailable
from threadkeep.items import Item, ItemKind
from threadkeep.llm.base import Delta, Ending, ModelReply
from threadkeep.llm.failures import ErrorDetails, parse_error, read_failure

# Servers that do not take a model's thoughts apart leave them at the beginning of what it says.
_THOUGHTS: Final = re.compile(r"\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Words, and whether some of them are a refusal."""

    text: str
    refused: bool


def read_speech(items: Iterable[Item], *, dialect: str) -> Speech:
    """Return what the model said in `items`, its reasoning and its calls left out."""
    spoken = [_spoken(read_object(item.raw) or {}, dialect=dialect) for item in items]
    said = [one for one in spoken if one.text]
    return Speech(text="\n".join(one.text for one in said), refused=any(one.refused for one in said))


def _spoken(fields: dict[str, Any], *, dialect: str) -> Speech:
    """Return what one item says. A Responses item that is no message says nothing."""
    if dialect == "responses" and fields.get("type", "message") != "message":
        return Speech(text="", refused=False)
    content = fields.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    words = "".join(_text(part) for part in parts)
    refusals = [part.get("refusal") for part in (*parts, fields) if isinstance(part, dict)]
    refusal = "".join(text for text in refusals if isinstance(text, str))
    without_thoughts = _THOUGHTS.sub("", words, count=1) if _THOUGHTS.match(words) else words
    return Speech(text=without_thoughts + refusal, refused=bool(refusal))


def _text(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "output_text") else None
    return text if isinstance(text, str) else ""


RESPONSES: Final = {
    "response.output_text.delta": False,
    "response.refusal.delta": False,
    "response.reasoning_summary_text.delta": True,
    "response.reasoning_text.delta": True,
}
MESSAGES: Final = {"text_delta": ("text", False), "thinking_delta": ("thinking", True)}
# Where servers put what the model says and thinks; the first that is there counts.
CHAT: Final = (("content", False), ("refusal", False), ("reasoning_content", True), ("reasoning", True))

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

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._events = EventReader()
        self._held = ""
        self._place = _Place.BEGINNING

    def feed(self, chunk: bytes) -> list[Delta]:
        """Return what was said in the events that end in `chunk`."""
        found = [fields for data in self._events.feed(chunk) if (fields := read_fields(data)) is not None]
        return [told for event in found for delta in self._said(event) for told in self._apart(delta)]

    def _said(self, event: Fields) -> Iterator[Delta]:
        match self._dialect:
            case "responses":
                kind = event.text("type") or ""
                words = event.text("delta") if kind in RESPONSES else None
                thought = RESPONSES.get(kind, False)
            case "messages":
                delta = event.inner("delta")
                name, thought = MESSAGES.get(delta.text("type") or "", ("", False))
                words = delta.text(name) if name else None
            case _:
                choices = [read_fields(choice) for choice in event.elements("choices") or ()]
                first = next((choice for choice in choices if choice is not None and not choice.count("index")), Fields({}))
                delta = first.inner("delta")
                words, thought = next(((text, kind) for name, kind in CHAT if (text := delta.text(name))), (None, False))
        if words:
            yield Delta(text=words, is_thought=thought)

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
        """Return the whole answer of the model called `name`; see `conclude_reply` for what is raised."""
        return conclude_reply(self._reader.reply, self._beside, name=name, dialect=self._dialect, secrets=secrets)

    def _take_item(self, event: Fields) -> None:
        # The dialect's reader has the same items, but only all of them at once: looking there for each costs their square.
        if self._is_over or self._dialect.name != "responses":
            return
        kind = event.text("type")
        self._is_over = kind in TERMINAL
        if kind == "response.output_item.done" and (item := read_item(event.span("item"))) is not None:
            self._new.append(item)


def read_answer(body: bytes, *, name: str, dialect: Dialect, secrets: Sequence[str] = ()) -> ModelReply:
    """Return the answer of a server that does not stream, though it was asked to; see `conclude_reply` for what is raised."""
    answer = read_fields(body)
    beside = Circumstances() if answer is None else _noticed(answer, Circumstances())
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
    speech = read_speech(reply.items, dialect=dialect.name)
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


def _complaint(event: Fields, response: Fields) -> ErrorDetails | None:
    if event.text("type") == "error" or event.span("error") != ABSENT:
        return parse_error(event)
    return parse_error(response) if response.object("error") is not None else None


def _cost(response: Fields) -> float | None:
    cost = read_value(response.inner("usage").span("cost"))
    if isinstance(cost, bool) or not isinstance(cost, (int, Decimal)):
        return None
    return float(cost) if 0 <= cost < 1_000_000 else None
