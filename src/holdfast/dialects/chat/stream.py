"""What a provider answered, read from the bytes of its answer while they pass by.

The answer is hostile input: a reader never raises, keeps nothing it does not need, and does work in proportion to the
bytes it was given. What it cannot read it skips.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from holdfast.dialects.base import Outcome, Reply
from holdfast.dialects.chat.message import Delta, MessageAssembler
from holdfast.dialects.chat.spans import UNREADABLE, elements_of, fields_of, mended, read
from holdfast.dialects.sse import EventReader
from holdfast.items import Item

# How an answer ended where it did not simply end.
FINISHES: Final[dict[str, Outcome]] = {
    "length": "incomplete",
    "max_tokens": "incomplete",
    "content_filter": "incomplete",
    "error": "failed",
}
DONE: Final = b"[DONE]"

# Token counts end up in 64-bit columns; a number beyond any real count is no count.
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_ABSENT = Raw(b"null")


class _Chunk(Struct):
    id: Raw = _ABSENT
    choices: Raw = _ABSENT
    usage: Raw = _ABSENT
    error: Raw = _ABSENT


class _Choice(Struct):
    index: Raw = _ABSENT
    delta: Raw = _ABSENT
    finish_reason: Raw = _ABSENT
    usage: Raw = _ABSENT


class _Usage(Struct):
    prompt_tokens: Raw = _ABSENT
    completion_tokens: Raw = _ABSENT
    prompt_tokens_details: Raw = _ABSENT


class _PromptDetails(Struct):
    cached_tokens: Raw = _ABSENT


_CHUNK = Decoder(_Chunk)
# Most fields of most chunks are absent; reading nothing as None costs a fraction of refusing it.
_CHOICES: Decoder[list[Raw] | None] = Decoder(list[Raw] | None)
_CHOICE: Decoder[_Choice | None] = Decoder(_Choice | None)
_DELTA: Decoder[Delta | None] = Decoder(Delta | None)
_USAGE: Decoder[_Usage | None] = Decoder(_Usage | None)
_DETAILS: Decoder[_PromptDetails | None] = Decoder(_PromptDetails | None)
_COUNT: Decoder[int | None] = Decoder(_Count | None)
_TEXT: Decoder[str | None] = Decoder(str | None)


def _chunk(data: bytes) -> _Chunk | None:
    """Return a chunk; one that ends within an emoji, whose other half the next one holds, loses that character alone."""
    if (chunk := read(_CHUNK, data)) is not None:
        return chunk
    try:
        return read(_CHUNK, mended(data))
    except UNREADABLE:
        return None


def _counted(said: Reply, raw: bytes | Raw) -> Reply:
    """Return `said` with the counts of a usage object; what it leaves out or garbles stays as it was."""
    usage = read(_USAGE, raw)
    if usage is None:
        return said
    details = read(_DETAILS, usage.prompt_tokens_details) or _PromptDetails()
    counts = (read(_COUNT, count) for count in (usage.prompt_tokens, usage.completion_tokens, details.cached_tokens))
    before = (said.input_tokens, said.output_tokens, said.cached_tokens)
    new = [old if count is None else count for count, old in zip(counts, before, strict=True)]
    return replace(said, input_tokens=new[0], output_tokens=new[1], cached_tokens=new[2])


def _outcome(finish_reason: bytes | Raw) -> Outcome | None:
    """Return how an answer ended; None while it goes on. Servers have many words for a plain end."""
    reason = read(_TEXT, finish_reason)
    return FINISHES.get(reason, "completed") if reason else None


class ReplyAssembler:
    """Reads a streamed answer from chunks cut anywhere; see `holdfast.dialects.base.ReplyReader` for the contract.

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
            elif (said := _chunk(data)) is not None:
                self._take(said)
        return self._done

    def _end(self) -> None:
        self._done = True
        if self._said.outcome == "cut" and self._message.begun:
            self._said = replace(self._said, outcome="completed")

    def _take(self, chunk: _Chunk) -> None:
        response_id = self._said.response_id or read(_TEXT, chunk.id) or None
        self._said = _counted(replace(self._said, response_id=response_id), chunk.usage)
        if bytes(chunk.error) != b"null":
            self._said = replace(self._said, outcome="failed")
            self._done = True
            return
        for raw in read(_CHOICES, chunk.choices) or []:
            choice = read(_CHOICE, raw)
            if choice is not None and not read(_COUNT, choice.index):
                self._take_choice(choice)

    def _take_choice(self, choice: _Choice) -> None:
        if (delta := read(_DELTA, choice.delta)) is not None:
            self._message.take(delta)
        self._said = _counted(self._said, choice.usage)
        if (outcome := _outcome(choice.finish_reason)) is not None:
            self._said = replace(self._said, outcome=outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The choice that counts in an answer that was not streamed."""

    item: Item | None
    outcome: Outcome


def reply_from_json(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object.

    The message keeps its exact bytes.
    """
    try:
        fields = fields_of(body)
    except UNREADABLE:
        return Reply(outcome="cut")
    told = _told(fields)
    items = (told.item,) if told.item is not None and told.outcome != "failed" else ()
    said = Reply(items=items, response_id=read(_TEXT, fields.get("id", b"null")), outcome=told.outcome)
    return _counted(said, fields.get("usage", b"null"))


def _told(fields: dict[str, bytes]) -> _Told:
    if fields.get("error", b"null") != b"null":
        return _Told(item=None, outcome="failed")
    try:
        choices = [fields_of(choice) for choice in elements_of(fields.get("choices", b"[]"))]
    except UNREADABLE:
        choices = []
    first = next((choice for choice in choices if not read(_COUNT, choice.get("index", b"0"))), None)
    if first is None:
        return _Told(item=None, outcome="failed")
    outcome = _outcome(first.get("finish_reason", b"null")) or "completed"
    return _Told(item=_item(first.get("message", b"null")), outcome=outcome)


def _item(span: bytes) -> Item | None:
    # A skipped span is checked for structure but not for UTF-8, which everything that reads an item relies on.
    try:
        span.decode()
    except UnicodeDecodeError:
        return None
    return Item(span) if span.startswith(b"{") else None
