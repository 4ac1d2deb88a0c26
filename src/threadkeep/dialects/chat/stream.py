"""What a provider answered, read from the bytes of its answer while they pass by.

The answer is hostile input: a reader never raises, keeps nothing it does not need, and does work in proportion to the
bytes it was given. What it cannot read it skips.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from threadkeep.dialects.base import Outcome, Reply
from threadkeep.dialects.chat.message import MessageAssembler
from threadkeep.dialects.raw_json import ABSENT, Fields, read_fields, read_item
from threadkeep.dialects.sse import EventReader

# How an answer ended where it did not simply end.
FINISHES: Final[dict[str, Outcome]] = {
    "length": "incomplete",
    "max_tokens": "incomplete",
    "content_filter": "incomplete",
    "error": "failed",
}
DONE: Final = b"[DONE]"


def _counted(said: Reply, usage: Fields | None) -> Reply:
    """Return `said` with the counts of a usage object; what it leaves out or garbles stays as it was."""
    if usage is None:
        return said
    details = usage.inner("prompt_tokens_details")
    counts = (usage.count("prompt_tokens"), usage.count("completion_tokens"), details.count("cached_tokens"))
    before = (said.input_tokens, said.output_tokens, said.cached_tokens)
    new = [old if count is None else count for count, old in zip(counts, before, strict=True)]
    return replace(said, input_tokens=new[0], output_tokens=new[1], cached_tokens=new[2])


def _outcome(choice: Fields) -> Outcome | None:
    """Return how an answer ended; None while it goes on. Servers have many words for a plain end."""
    reason = choice.text("finish_reason")
    return FINISHES.get(reason, "completed") if reason else None


def _first_choice(answer: Fields) -> Fields | None:
    """Return the choice that counts: the one at index 0, or without an index."""
    choices = (read_fields(choice) for choice in answer.elements("choices") or [])
    return next((choice for choice in choices if choice is not None and not choice.count("index")), None)


class ReplyAssembler:
    """Reads a streamed answer from chunks cut anywhere; see `threadkeep.dialects.base.ReplyReader` for the contract.

    Servers that imitate the API may leave `[DONE]` out. The outcome is therefore known from the finish reason on, while
    `feed` turns true only with `[DONE]`, or with an error, after which nothing follows.
    """

    def __init__(self) -> None:
        self._events = EventReader()
        self._message = MessageAssembler()
        self._said = Reply()
        self._done = False

    @property
    def reply(self) -> Reply:
        if self._said.outcome in ("cut", "failed") or (item := self._message.item) is None:
            return self._said
        return replace(self._said, items=(item,))

    def feed(self, chunk: bytes) -> bool:
        for data in self._events.feed(chunk):
            if self._done:
                break
            if data.strip() == DONE:
                self._end()
            elif (piece := read_fields(data)) is not None:
                self._take(piece)
        return self._done

    def _end(self) -> None:
        self._done = True
        if self._said.outcome == "cut" and self._message.begun:
            self._said = replace(self._said, outcome="completed")

    def _take(self, chunk: Fields) -> None:
        if self._said.response_id is None:
            self._said = replace(self._said, response_id=chunk.text("id") or None)
        self._said = _counted(self._said, chunk.object("usage"))
        if chunk.span("error") != ABSENT:
            self._said = replace(self._said, outcome="failed")
            self._done = True
        elif (choice := _first_choice(chunk)) is not None:
            self._take_choice(choice)

    def _take_choice(self, choice: Fields) -> None:
        if (delta := choice.object("delta")) is not None:
            self._message.take(delta)
        self._said = _counted(self._said, choice.object("usage"))
        if (outcome := _outcome(choice)) is not None:
            self._said = replace(self._said, outcome=outcome)


def read_reply(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object.

    The message keeps its exact bytes.
    """
    answer = read_fields(body)
    if answer is None:
        return Reply(outcome="cut")
    choice = _first_choice(answer) if answer.span("error") == ABSENT else None
    outcome = "failed" if choice is None else _outcome(choice) or "completed"
    item = read_item(choice.span("message")) if choice is not None and outcome != "failed" else None
    said = Reply(items=(item,) if item else (), response_id=answer.text("id"), outcome=outcome)
    return _counted(said, answer.object("usage"))
