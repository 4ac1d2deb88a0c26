"""What a streamed answer says while it comes in, for whoever watches. Only the whole answer is ever history."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from threadkeep.dialects.raw_json import Fields, read_fields
from threadkeep.dialects.sse import EventReader
from threadkeep.llm.base import Delta

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
