"""What a provider answered, read from the bytes of its answer while they pass by.

An answer is one assistant message, put together from its blocks as a client would echo it. The answer is hostile input: a reader
never raises, keeps no more than `MAX_REPLY_BYTES`, and does work in proportion to the bytes it was given. What it cannot read it
skips.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final, TypeVar

from msgspec import Meta, MsgspecError, Raw, Struct
from msgspec.json import Decoder

from holdfast.dialects.base import Outcome, Reply
from holdfast.dialects.messages.assembly import BlockInProgress
from holdfast.dialects.messages.spans import decoded_object, list_of, mended
from holdfast.dialects.sse import EventReader
from holdfast.items import Item

# Beyond this no message is put together: no model writes so much, and half a message would be a false one.
MAX_REPLY_BYTES = 64 * 1024 * 1024

# Any other reason means that more was to come.
FINISHED: Final = frozenset({"end_turn", "tool_use", "stop_sequence"})

# Token counts end up in 64-bit columns; a number beyond any real count is no count.
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_ABSENT = Raw(b"null")


class _Event(Struct):
    type: str = ""
    index: Raw = _ABSENT
    message: Raw = _ABSENT
    content_block: Raw = _ABSENT
    delta: Raw = _ABSENT
    usage: Raw = _ABSENT


class _Message(Struct):
    """A whole message, the start of one, or the changes at its end."""

    type: Raw = _ABSENT
    id: Raw = _ABSENT
    content: Raw = _ABSENT
    stop_reason: Raw = _ABSENT
    usage: Raw = _ABSENT


class _Usage(Struct):
    input_tokens: Raw = _ABSENT
    cache_read_input_tokens: Raw = _ABSENT
    cache_creation_input_tokens: Raw = _ABSENT
    output_tokens: Raw = _ABSENT


T = TypeVar("T")

_EVENT = Decoder(_Event)
_MESSAGE = Decoder(_Message)
_USAGE = Decoder(_Usage)
_COUNT = Decoder(_Count)
_TEXT = Decoder(str)
_LIST = Decoder(list[Raw])


def _read(decoder: Decoder[T], data: bytes | Raw) -> T | None:
    """Return what `decoder` makes of `data`, or None: one odd field must not cost its neighbours."""
    try:
        return decoder.decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _outcome(stop_reason: str | None) -> Outcome:
    return "completed" if stop_reason is None or stop_reason in FINISHED else "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """What was counted so far, in the provider's terms: what it read from its cache and wrote to it is not among its input."""

    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None

    def updated(self, usage: Raw) -> _Counts:
        """Return the counts after a newer usage; a count it leaves out stays."""
        said = _read(_USAGE, usage) or _Usage()
        counts = {name: _read(_COUNT, getattr(said, name)) for name in _Usage.__struct_fields__}
        return replace(self, **{name: count for name, count in counts.items() if count is not None})

    def on(self, reply: Reply) -> Reply:
        """Return the reply with these counts, its input being all that was sent."""
        cache = (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)
        return replace(
            reply,
            input_tokens=None if self.input_tokens is None else self.input_tokens + cache,
            cached_tokens=self.cache_read_input_tokens,
            output_tokens=self.output_tokens,
        )


def _message_of(blocks: list[bytes]) -> tuple[Item, ...]:
    return (Item(b'{"role":"assistant","content":' + list_of(blocks) + b"}"),) if blocks else ()


def reply_from_json(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object."""
    message = _read(_MESSAGE, body) or _read(_MESSAGE, mended(body))
    if message is None:
        return Reply(outcome="cut")
    content = _read(_LIST, message.content)
    if content is None or _read(_TEXT, message.type) == "error":
        return Reply(outcome="failed")
    # A skipped span is checked for structure but not for UTF-8, which everything that reads an item relies on.
    blocks = [bytes(block) for block in content if decoded_object(bytes(block)) is not None]
    reply = Reply(
        items=_message_of(blocks), response_id=_read(_TEXT, message.id), outcome=_outcome(_read(_TEXT, message.stop_reason))
    )
    return _Counts().updated(message.usage).on(reply)


class ReplyAssembler:
    """Reads a streamed answer from chunks cut anywhere; see `holdfast.dialects.base.ReplyReader` for the contract.

    The message holds every block that is complete so far: that is what a client keeps of an answer that breaks off.
    """

    def __init__(self) -> None:
        self._events = EventReader()
        self._done = False
        self._stop_reason: str | None = None
        self._growing: dict[int, BlockInProgress] = {}
        self._complete: dict[int, bytes] = {}
        self._kept_bytes = 0
        self._said = Reply()
        self._counts = _Counts()
        self._message: tuple[Item, ...] | None = ()

    @property
    def reply(self) -> Reply:
        if self._message is None:
            self._message = _message_of([self._complete[index] for index in sorted(self._complete)])
        return self._counts.on(replace(self._said, items=self._message))

    def feed(self, chunk: bytes) -> bool:
        for data in self._events.feed(chunk):
            if self._done:
                break
            event = _read(_EVENT, data) or _read(_EVENT, mended(data))
            if event is not None:
                self._take(event, size=len(data))
        return self._done

    def _take(self, event: _Event, *, size: int) -> None:
        match event.type:
            case "content_block_start" | "content_block_delta":
                self._take_content(event, size=size)
            case "content_block_stop":
                self._finish(_read(_COUNT, event.index))
            case "message_start":
                message = _read(_MESSAGE, event.message) or _Message()
                self._said = replace(self._said, response_id=_read(_TEXT, message.id))
                self._counts = self._counts.updated(message.usage)
            case "message_delta":
                delta = _read(_MESSAGE, event.delta) or _Message()
                self._stop_reason = _read(_TEXT, delta.stop_reason) or self._stop_reason
                self._counts = self._counts.updated(event.usage)
            case "message_stop":
                for index in list(self._growing):
                    self._finish(index)
                self._end(_outcome(self._stop_reason))
            case "error":
                self._end("failed")
            case _:
                return

    def _take_content(self, event: _Event, *, size: int) -> None:
        index = _read(_COUNT, event.index)
        if index is None or self._kept_bytes > MAX_REPLY_BYTES:
            return
        self._kept_bytes += size
        if self._kept_bytes > MAX_REPLY_BYTES:
            self._growing.clear()
            self._complete.clear()
            self._message = ()
        elif event.type == "content_block_delta":
            if index in self._growing:
                self._growing[index].take(bytes(event.delta))
        elif (started := decoded_object(bytes(event.content_block))) is not None:
            self._growing[index] = BlockInProgress(started)

    def _finish(self, index: int | None) -> None:
        block = self._growing.pop(index, None) if index is not None else None
        finished = block.finished() if block else None
        if index is not None and finished is not None:
            self._complete[index] = finished
            self._message = None

    def _end(self, outcome: Outcome) -> None:
        self._said = replace(self._said, outcome=outcome)
        self._done = True
