"""What a provider answered, read from the bytes of its answer while they pass by.

An answer is one assistant message, put together from its blocks as a client would echo it. The answer is hostile input: a reader
never raises, keeps no more than `MAX_REPLY_BYTES`, and does work in proportion to the bytes it was given. What it cannot read it
skips.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from threadkeep.dialects.base import Outcome, Reply
from threadkeep.dialects.messages.assembly import BlockInProgress
from threadkeep.dialects.raw_json import Fields, join_list, read_fields, read_object
from threadkeep.dialects.sse import EventReader
from threadkeep.items import Item

# Beyond this no message is put together: no model writes so much, and half a message would be a false one.
MAX_REPLY_BYTES = 64 * 1024 * 1024

# Any other reason means that more was to come.
FINISHED: Final = frozenset({"end_turn", "tool_use", "stop_sequence"})
COUNTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def _outcome(stop_reason: str | None) -> Outcome:
    return "completed" if stop_reason is None or stop_reason in FINISHED else "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """What was counted so far, in the provider's terms: what it read from its cache and wrote to it is not among its input."""

    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None

    def updated(self, usage: Fields) -> _Counts:
        """Return the counts after a newer usage; a count it leaves out stays."""
        counts = {name: usage.count(name) for name in COUNTS}
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
    return (Item(b'{"role":"assistant","content":' + join_list(blocks) + b"}"),) if blocks else ()


def read_reply(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object."""
    message = read_fields(body)
    if message is None:
        return Reply(outcome="cut")
    content = message.elements("content")
    if content is None or message.text("type") == "error":
        return Reply(outcome="failed")
    blocks = [block for block in content if read_object(block) is not None]
    reply = Reply(items=_message_of(blocks), response_id=message.text("id"), outcome=_outcome(message.text("stop_reason")))
    return _Counts().updated(message.inner("usage")).on(reply)


class ReplyAssembler:
    """Reads a streamed answer from chunks cut anywhere; see `threadkeep.dialects.base.ReplyReader` for the contract.

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
            if (event := read_fields(data)) is not None:
                self._take(event, size=len(data))
        return self._done

    def _take(self, event: Fields, *, size: int) -> None:
        match event.text("type"):
            case "content_block_start":
                self._start(event, size=size)
            case "content_block_delta":
                self._grow(event, size=size)
            case "content_block_stop":
                self._finish(event.count("index"))
            case "message_start":
                message = event.inner("message")
                self._said = replace(self._said, response_id=message.text("id"))
                self._counts = self._counts.updated(message.inner("usage"))
            case "message_delta":
                self._stop_reason = event.inner("delta").text("stop_reason") or self._stop_reason
                self._counts = self._counts.updated(event.inner("usage"))
            case "message_stop":
                for index in list(self._growing):
                    self._finish(index)
                self._end(_outcome(self._stop_reason))
            case "error":
                self._end("failed")
            case _:
                return

    def _start(self, event: Fields, *, size: int) -> None:
        index, started = event.count("index"), read_object(event.span("content_block"))
        if index is not None and started is not None and self._has_room(size):
            self._growing[index] = BlockInProgress(started)

    def _grow(self, event: Fields, *, size: int) -> None:
        block = self._growing.get(-1 if (index := event.count("index")) is None else index)
        if block is not None and self._has_room(size):
            block.take(event.inner("delta"))

    def _has_room(self, size: int) -> bool:
        """Count what is kept; beyond the limit let go of all of it."""
        self._kept_bytes += size
        if self._kept_bytes <= MAX_REPLY_BYTES:
            return True
        self._growing.clear()
        self._complete.clear()
        self._message = ()
        return False

    def _finish(self, index: int | None) -> None:
        block = self._growing.pop(index, None) if index is not None else None
        finished = block.finished() if block else None
        if index is not None and finished is not None:
            self._complete[index] = finished
            self._message = None

    def _end(self, outcome: Outcome) -> None:
        self._said = replace(self._said, outcome=outcome)
        self._done = True
