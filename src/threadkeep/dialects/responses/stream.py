"""What a provider answered, read from the bytes of its answer while they pass by.

The answer is hostile input: a reader never raises, keeps nothing it does not need, and does work in proportion to the
bytes it was given. What it cannot read it skips.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from threadkeep.dialects.base import Outcome, Reply
from threadkeep.dialects.raw_json import ABSENT, Fields, read_fields, read_item
from threadkeep.dialects.sse import EventReader
from threadkeep.items import Item

TERMINAL: Final[dict[str, Outcome]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "error": "failed",
}

STATUSES: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "failed",
    "queued": "incomplete",
    "in_progress": "incomplete",
}


def _items(spans: list[bytes]) -> tuple[Item, ...]:
    return tuple(item for item in map(read_item, spans) if item is not None)


def _reply(response: Fields, *, outcome: Outcome) -> Reply:
    """Return what a response object says, its own output list included."""
    usage = response.inner("usage")
    return Reply(
        items=_items(response.elements("output") or []),
        input_tokens=usage.count("input_tokens"),
        output_tokens=usage.count("output_tokens"),
        cached_tokens=usage.inner("input_tokens_details").count("cached_tokens"),
        response_id=response.text("id"),
        outcome=outcome,
    )


def read_reply(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object."""
    response = read_fields(body)
    if response is None:
        return Reply(outcome="cut")
    status = response.text("status")
    if status is None:
        # Servers that imitate the API leave the status out; an output list and no error is then the sign of success.
        succeeded = response.span("error") == ABSENT and response.elements("output") is not None
        return _reply(response, outcome="completed" if succeeded else "failed")
    return _reply(response, outcome=STATUSES.get(status, "incomplete"))


class ReplyAssembler:
    """Reads a streamed answer from chunks cut anywhere; see `threadkeep.dialects.base.ReplyReader` for the contract."""

    def __init__(self) -> None:
        self._events = EventReader()
        self._done = False
        self._streamed: dict[int, Item] = {}
        self._next_index = 0
        self._said = Reply()

    @property
    def reply(self) -> Reply:
        if not self._streamed:
            return self._said
        return replace(self._said, items=tuple(self._streamed[index] for index in sorted(self._streamed)))

    def feed(self, chunk: bytes) -> bool:
        for data in self._events.feed(chunk):
            if not self._done and (event := read_fields(data)) is not None:
                self._take(event)
        return self._done

    def _take(self, event: Fields) -> None:
        kind = event.text("type") or ""
        if kind == "response.output_item.done":
            self._take_item(event)
        elif kind in TERMINAL:
            said = _reply(event.inner("response"), outcome=TERMINAL[kind])
            self._said = replace(said, response_id=said.response_id or self._said.response_id)
            self._done = True
        elif kind == "response.created":
            self._said = replace(self._said, response_id=event.inner("response").text("id"))

    def _take_item(self, event: Fields) -> None:
        item = read_item(event.span("item"))
        if item is None:
            return
        index = event.count("output_index")
        place = self._next_index if index is None else index
        self._streamed[place] = item
        self._next_index = max(self._next_index, place + 1)
