"""What a provider answered, read from the bytes of its answer while they pass by.

The answer is hostile input: a reader never raises, keeps nothing it does not need, and does work in proportion to the
bytes it was given. What it cannot read it skips.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypeVar

from msgspec import Meta, MsgspecError, Raw, Struct
from msgspec.json import Decoder

from holdfast.dialects.base import Outcome, Reply
from holdfast.dialects.sse import EventReader
from holdfast.items import Item

TERMINAL: dict[str, Outcome] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "error": "failed",
}

STATUSES: dict[str | None, Outcome] = {
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "failed",
    "queued": "incomplete",
    "in_progress": "incomplete",
}


# Token counts end up in 64-bit columns; a number beyond any real count is no count.
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_ABSENT = Raw(b"null")


class _Event(Struct):
    type: str = ""
    item: Raw = _ABSENT
    output_index: Raw = _ABSENT
    response: Raw = _ABSENT


class _Response(Struct):
    id: Raw = _ABSENT
    status: Raw = _ABSENT
    output: Raw = _ABSENT
    error: Raw = _ABSENT
    usage: Raw = _ABSENT


class _Usage(Struct):
    input_tokens: Raw = _ABSENT
    output_tokens: Raw = _ABSENT
    input_tokens_details: Raw = _ABSENT


class _InputDetails(Struct):
    cached_tokens: Raw = _ABSENT


T = TypeVar("T")

_EVENT = Decoder(_Event)
_RESPONSE = Decoder(_Response)
_USAGE = Decoder(_Usage)
_DETAILS = Decoder(_InputDetails)
_COUNT = Decoder(_Count)
_TEXT = Decoder(str)
_LIST = Decoder(list[Raw])


def _read(decoder: Decoder[T], data: bytes | Raw) -> T | None:
    """Return what `decoder` makes of `data`, or None: one odd field must not cost its neighbours."""
    try:
        return decoder.decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _item(raw: Raw) -> Item | None:
    # A skipped span is checked for structure but not for UTF-8, which everything that reads an item relies on.
    span = bytes(raw)
    try:
        span.decode()
    except UnicodeDecodeError:
        return None
    return Item(span) if span.startswith(b"{") else None


def _items(raws: list[Raw]) -> tuple[Item, ...]:
    return tuple(item for item in map(_item, raws) if item is not None)


def _reply(response: _Response, *, outcome: Outcome) -> Reply:
    """Return what a response object says, its own output list included."""
    usage = _read(_USAGE, response.usage) or _Usage()
    details = _read(_DETAILS, usage.input_tokens_details) or _InputDetails()
    return Reply(
        items=_items(_read(_LIST, response.output) or []),
        input_tokens=_read(_COUNT, usage.input_tokens),
        output_tokens=_read(_COUNT, usage.output_tokens),
        cached_tokens=_read(_COUNT, details.cached_tokens),
        response_id=_read(_TEXT, response.id),
        outcome=outcome,
    )


def reply_from_json(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object."""
    response = _read(_RESPONSE, body)
    if response is None:
        return Reply(outcome="cut")
    status = _read(_TEXT, response.status)
    if status is None:
        # Servers that imitate the API leave the status out; an output list and no error is then the sign of success.
        succeeded = bytes(response.error) == b"null" and _read(_LIST, response.output) is not None
        return _reply(response, outcome="completed" if succeeded else "failed")
    return _reply(response, outcome=STATUSES.get(status, "incomplete"))


class ReplyAssembler:
    """Reads a streamed answer from chunks cut anywhere; see `holdfast.dialects.base.ReplyReader` for the contract."""

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
            if not self._done and (event := _read(_EVENT, data)) is not None:
                self._take(event)
        return self._done

    def _take(self, event: _Event) -> None:
        if event.type == "response.output_item.done":
            self._take_item(event)
        elif event.type in TERMINAL:
            response = _read(_RESPONSE, event.response) or _Response()
            said = _reply(response, outcome=TERMINAL[event.type])
            self._said = replace(said, response_id=said.response_id or self._said.response_id)
            self._done = True
        elif event.type == "response.created":
            response = _read(_RESPONSE, event.response) or _Response()
            self._said = replace(self._said, response_id=_read(_TEXT, response.id))

    def _take_item(self, event: _Event) -> None:
        item = _item(event.item)
        index = _read(_COUNT, event.output_index)
        if item is None:
            return
        place = self._next_index if index is None else index
        self._streamed[place] = item
        self._next_index = max(self._next_index, place + 1)
