"""Answers of the Messages API, read and written: this module is the dialect's `Wire`.

An answer is one assistant message, put together from its blocks as a client would echo it. The answer is hostile input: a reader
never raises, keeps no more than `MAX_REPLY_BYTES`, and does work in proportion to the bytes it was given. What it cannot read it
skips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec.json import encode

from threadkeep.dialects.messages import answer_filter
from threadkeep.dialects.openai_parts import read_speech_parts
from threadkeep.dialects.raw_json import Fields, Json, encode_value, join_list, read_fields, read_object, read_value
from threadkeep.dialects.reply_reader import ReplyReader, count_tokens
from threadkeep.dialects.translation import AnswerWriter, PlainRequest, StopReason, Usage
from threadkeep.dialects.values import Answer, Delta, Outcome, Reply, Speech
from threadkeep.items import Item

INPUT: Final = "partial_json"


class BlockInProgress:
    """A block as it started, and what was added to it since. Deltas of an unknown kind are ignored."""

    def __init__(self, started: Json) -> None:
        self._started = started
        self._parts: dict[str, list[str]] = {}
        self._replaced: Json = {}
        self._citations: list[object] = []

    def take(self, delta: Fields) -> None:
        """Add one delta."""
        match delta.text("type"):
            case "text_delta":
                self._grow("text", delta.text("text"))
            case "thinking_delta":
                self._grow("thinking", delta.text("thinking"))
            case "input_json_delta":
                self._grow(INPUT, delta.text("partial_json"))
            case "compaction_delta":
                self._grow("content", delta.text("content"))
                self._replace("encrypted_content", delta.text("encrypted_content"))
            case "signature_delta":
                self._replace("signature", delta.text("signature"))
            case "citations_delta":
                citation = read_value(delta.span("citation"))
                self._citations.extend([] if citation is None else [citation])
            case _:
                return

    def finished(self) -> bytes | None:
        """Return the block as a client would echo it; None where the input of its call cannot be read."""
        parts = dict(self._parts)
        arguments = "".join(parts.pop(INPUT, ()))
        block = self._started | self._replaced
        for field, added in parts.items():
            before = block.get(field)
            block[field] = "".join([before if isinstance(before, str) else "", *added])
        if self._citations:
            cited = block.get("citations")
            block["citations"] = [*(cited if isinstance(cited, list) else ()), *self._citations]
        if arguments.strip():
            block["input"] = read_value(arguments.encode())
            if block["input"] is None:
                return None
        try:
            return encode_value(block)
        except RecursionError:
            return None

    def _grow(self, field: str, text: str | None) -> None:
        self._parts.setdefault(field, []).extend([] if text is None else [text])

    def _replace(self, field: str, text: str | None) -> None:
        if text is not None:
            self._replaced[field] = text


# Any other reason means that more was to come.
FINISHED: Final = frozenset({"end_turn", "tool_use", "stop_sequence"})
COUNTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def _outcome(stop_reason: str | None) -> Outcome:
    return "completed" if stop_reason is None or stop_reason in FINISHED else "incomplete"


def _count(counts: dict[str, int], usage: Fields) -> None:
    """Take the counts of a newer usage, in the provider's terms; one that it leaves out stays."""
    counts.update({name: count for name in COUNTS if (count := usage.count(name)) is not None})


def _with_counts(reply: Reply, counts: Mapping[str, int]) -> Reply:
    """Return the reply with these counts. What the provider read from its cache and wrote to it is not among its input."""
    read, *cached, written = map(counts.get, COUNTS)
    sent = None if read is None else read + sum(count or 0 for count in cached)
    return count_tokens(reply, read=sent, written=written, cached=cached[0])


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
    counts: dict[str, int] = {}
    _count(counts, message.inner("usage"))
    return _with_counts(reply, counts)


class MessagesReplyReader(ReplyReader):
    """See `threadkeep.dialects.reply_reader.ReplyReader`.

    The message holds every block that is complete so far: that is what a client keeps of an answer that breaks off.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stop_reason: str | None = None
        self._growing: dict[int, BlockInProgress] = {}
        self._complete: dict[int, bytes] = {}
        self._counts: dict[str, int] = {}
        self._message: tuple[Item, ...] | None = ()

    @property
    def reply(self) -> Reply:
        if self._message is None:
            self._message = _message_of([self._complete[index] for index in sorted(self._complete)])
        return _with_counts(replace(self._said, items=self._message), self._counts)

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
                _count(self._counts, message.inner("usage"))
            case "message_delta":
                self._stop_reason = event.inner("delta").text("stop_reason") or self._stop_reason
                _count(self._counts, event.inner("usage"))
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

    def _forget(self) -> None:
        self._growing.clear()
        self._complete.clear()
        self._message = ()

    def _finish(self, index: int | None) -> None:
        block = self._growing.pop(index, None) if index is not None else None
        finished = block.finished() if block else None
        if index is not None and finished is not None:
            self._complete[index] = finished
            self._message = None

    def _end(self, outcome: Outcome) -> None:
        self._said = replace(self._said, outcome=outcome)
        self._done = True


STOPS: Final = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


class MessagesAnswerWriter(AnswerWriter):
    """Every event of the API; a part of an answer is a content block."""

    def __init__(self, answer: Answer, request: PlainRequest | None = None) -> None:
        super().__init__(answer, request)
        self._blocks: list[Json] = []
        self._ended: Json = {}

    def begin(self) -> None:
        self._emit("message_start", message=self._make_message(stop_reason=None, usage=_count_usage(Usage())))

    def finish(self, reason: StopReason, usage: Usage) -> None:
        why = STOPS.get(reason, "end_turn")
        self._ended = self._make_message(stop_reason=why, usage=_count_usage(usage)) | {"content": self._blocks}
        self._emit("message_delta", delta={"stop_reason": why, "stop_sequence": None}, usage=_count_usage(usage))
        self._emit("message_stop")

    def fail(self, code: str, message: str) -> None:
        self._ended = {"type": "error", "error": {"type": "api_error", "message": message, "code": code}}
        self._emit("error", error=self._ended["error"])

    def whole(self) -> bytes:
        return encode_value(self._ended)

    def _make_message(self, *, stop_reason: str | None, usage: Json) -> Json:
        said: Json = {"id": self._answer.message_id, "type": "message", "role": "assistant", "model": self._answer.model}
        return said | {"content": [], "stop_reason": stop_reason, "stop_sequence": None, "usage": usage}

    def _open(self) -> None:
        self._emit("content_block_start", index=len(self._blocks), content_block=self._make_block(""))

    def _grow(self, text: str) -> None:
        match self._kind:
            case "thought":
                self._emit_delta(type="thinking_delta", thinking=text)
            case "call":
                self._emit_delta(type="input_json_delta", partial_json=text)
            case _:
                self._emit_delta(type="text_delta", text=text)

    def _close(self, text: str, *, seal: str) -> None:
        if self._kind == "thought":
            self._emit_delta(type="signature_delta", signature=seal)
        self._emit("content_block_stop", index=len(self._blocks))
        self._blocks.append(self._make_block(text, seal=seal))

    def _make_block(self, text: str, *, seal: str = "") -> Json:
        match self._kind:
            case "thought":
                return {"type": "thinking", "thinking": text, "signature": seal}
            case "call":
                tool = self._tools.get(self._call.name)
                name = tool.name if tool is not None else self._call.name
                return {"type": "tool_use", "id": self._call.id, "name": name, "input": read_object(text.encode()) or {}}
            case _:
                return {"type": "text", "text": text}

    def _emit_delta(self, **delta: object) -> None:
        self._emit("content_block_delta", index=len(self._blocks), delta=delta)

    def _emit(self, kind: str, **fields: object) -> None:
        self._events.append(_render_event({"type": kind, **fields}))


def _count_usage(usage: Usage) -> Json:
    return {
        "input_tokens": max(0, usage.read - usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.written,
    }


# Clients know by these words that a history does not fit; the code is that of other providers.
OVERFLOW: Final = "context_length_exceeded"
OVERFLOW_WORDS: Final = "prompt is too long"

# The provider's own word for each status; clients decide by it whether to try again.
ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of a message with one block of text."""
    return MessagesAnswerWriter(answer).write_text(answer.text).take()


def render_answer(answer: Answer) -> bytes:
    """Return the same message as one JSON object, for a request that asked for no stream."""
    return MessagesAnswerWriter(answer).write_text(answer.text).whole()


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients branch on its type, and may on `code`."""
    if code == OVERFLOW and OVERFLOW_WORDS not in message:
        message = f"{OVERFLOW_WORDS}: {message}"
    kind = ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return encode({"type": "error", "error": {"type": kind, "message": message, "code": code}})


def _render_event(fields: Json) -> bytes:
    # JSON as it is written here holds no line break, so one data line carries any text.
    return b"event: " + str(fields["type"]).encode() + b"\ndata: " + encode(fields) + b"\n\n"


make_reader = MessagesReplyReader
make_filter = answer_filter.MessagesAnswerFilter
merge_answers = answer_filter.merge_answers

streams_items: Final = False
WORDS: Final = {"text_delta": ("text", False), "thinking_delta": ("thinking", True)}


def read_delta(event: Fields) -> Delta | None:
    delta = event.inner("delta")
    name, is_thought = WORDS.get(delta.text("type") or "", ("", False))
    return Delta(text=text, is_thought=is_thought) if name and (text := delta.text(name)) else None


def read_finished_item(event: Fields) -> Item | None:
    return None


def read_stop_reason(event: Fields) -> str | None:
    return event.inner("delta").text("stop_reason") or event.text("stop_reason")


def read_speech(item: Item) -> Speech:
    return read_speech_parts(read_object(item.raw) or {})
