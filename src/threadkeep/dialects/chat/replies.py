"""Answers of Chat Completions, read and written: this module is the dialect's `Wire`.

The answer is hostile input: a reader never raises, keeps nothing it does not need, and does work in proportion to the
bytes it was given. What it cannot read it skips.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import Raw
from msgspec.json import encode

from threadkeep.dialects.chat import answer_filter
from threadkeep.dialects.openai_parts import read_speech_parts
from threadkeep.dialects.raw_json import ABSENT, Fields, Json, read_fields, read_item, read_object
from threadkeep.dialects.reply_reader import ReplyReader, count_tokens
from threadkeep.dialects.values import Answer, Delta, Outcome, Reply, Speech
from threadkeep.items import Item

# What an entry of our own costs beside its text, so that a stream of empty calls meets the same limit.
CALL_BYTES: Final = 1_024


class PartialCall:
    """A call whose pieces are still coming."""

    def __init__(self, *, place: int) -> None:
        self.place = place
        self.id = ""
        self.is_custom = False
        self.name = bytearray()
        self.payload = bytearray()

    def called(self) -> dict[str, str]:
        """Return what is called and with what, as a call's own field says it."""
        return {"name": self.name.decode(), "input" if self.is_custom else "arguments": self.payload.decode()}

    def entry(self) -> dict[str, object]:
        """Return the call as an element of `tool_calls`."""
        kind = "custom" if self.is_custom else "function"
        return {"id": self.id, "type": kind, kind: self.called()}


def _content(delta: Fields) -> str:
    """Return the text of a piece of content: a string, or, with some servers, parts."""
    if (text := delta.text("content")) is not None:
        return text
    parts = (read_fields(part) for part in delta.elements("content") or [])
    return "".join(part.text("text") or "" for part in parts if part is not None)


def _payload(called: Fields, name: str) -> str:
    """Return a piece of a call's payload; some servers send the arguments as an object and not as text."""
    return called.text(name) or _object_text(called.span(name))


def _object_text(span: bytes) -> str:
    """Return the text of a JSON object; empty where it is none."""
    item = read_item(span)
    return item.raw.decode() if item else ""


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
    cached = usage.inner("prompt_tokens_details").count("cached_tokens")
    return count_tokens(said, read=usage.count("prompt_tokens"), written=usage.count("completion_tokens"), cached=cached)


def _outcome(choice: Fields) -> Outcome | None:
    """Return how an answer ended; None while it goes on. Servers have many words for a plain end."""
    reason = choice.text("finish_reason")
    return FINISHES.get(reason, "completed") if reason else None


class ChatReplyReader(ReplyReader):
    """See `threadkeep.dialects.reply_reader.ReplyReader`.

    Servers that imitate the API may leave `[DONE]` out. The outcome is therefore known from the finish reason on, while
    `feed` turns true only with `[DONE]`, or with an error, after which nothing follows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._texts = {name: bytearray() for name in ("content", "refusal", "reasoning_content", "reasoning")}
        self._details = bytearray()
        self._calls: list[PartialCall] = []
        self._at_index: dict[int, PartialCall] = {}
        self._legacy: PartialCall | None = None
        self._audio_id = ""

    @property
    def reply(self) -> Reply:
        if self._said.outcome in ("cut", "failed") or (item := self._build_item()) is None:
            return self._said
        return replace(self._said, items=(item,))

    def _is_end(self, data: bytes) -> bool:
        if data.strip() != DONE:
            return False
        if self._said.outcome == "cut" and self._begun:
            self._said = replace(self._said, outcome="completed")
        return True

    def _take(self, chunk: Fields, *, size: int) -> None:
        if self._said.response_id is None:
            self._said = replace(self._said, response_id=chunk.text("id") or None)
        self._said = _counted(self._said, chunk.object("usage"))
        if chunk.span("error") != ABSENT:
            self._said = replace(self._said, outcome="failed")
            self._done = True
        elif (choice := find_first_choice(chunk)) is not None:
            self._take_choice(choice)

    def _take_choice(self, choice: Fields) -> None:
        if (delta := choice.object("delta")) is not None:
            self._take_delta(delta)
        self._said = _counted(self._said, choice.object("usage"))
        if (outcome := _outcome(choice)) is not None:
            self._said = replace(self._said, outcome=outcome)

    def _build_item(self) -> Item | None:
        """Return the message so far in one fixed serialisation; None where none was begun, or where it is beyond the limit."""
        if not self._begun or not self._has_room(0):
            return None
        called = bool(self._calls or self._legacy)
        message: dict[str, object] = {"role": "assistant", "content": None if called else ""}
        message |= {name: text.decode() for name, text in self._texts.items() if text}
        if self._details:
            message["reasoning_details"] = Raw(b"[" + bytes(self._details) + b"]")
        if self._calls:
            message["tool_calls"] = [call.entry() for call in sorted(self._calls, key=lambda call: call.place)]
        if self._legacy is not None:
            message["function_call"] = self._legacy.called()
        if self._audio_id:
            message["audio"] = {"id": self._audio_id}
        return Item(encode(message))

    def _take_delta(self, delta: Fields) -> None:
        """Take the next piece of the message; anything may stand in its fields."""
        self._begun = True
        self._keep(self._texts["content"], _content(delta))
        for name in ("refusal", "reasoning_content", "reasoning"):
            if text := delta.text(name):
                self._keep(self._texts[name], text)
        for detail in delta.elements("reasoning_details") or []:
            if known := _object_text(detail):
                self._keep(self._details, f",{known}" if self._details else known)
        for raw in delta.elements("tool_calls") or []:
            if (call := read_fields(raw)) is not None:
                self._take_call(call)
        if (legacy := delta.object("function_call")) is not None:
            self._legacy = self._legacy or PartialCall(place=0)
            self._take_called(self._legacy, legacy)
        self._audio_id = self._audio_id or delta.inner("audio").text("id") or ""

    def _take_call(self, delta: Fields) -> None:
        custom = delta.object("custom")
        called = custom or delta.inner("function")
        call_id = delta.text("id") or ""
        call = self._call_for(delta.integer("index"), call_id=call_id, named=bool(called.text("name")))
        if call is None:
            return
        call.id = call.id or call_id
        call.is_custom = call.is_custom or custom is not None
        self._take_called(call, called)

    def _take_called(self, call: PartialCall, called: Fields) -> None:
        name = called.text("name") or ""
        # Some servers repeat the whole name in every piece.
        if name.encode() != call.name:
            self._keep(call.name, name)
        self._keep(call.payload, _payload(called, "arguments") or _payload(called, "input"))

    def _call_for(self, index: int | None, *, call_id: str, named: bool) -> PartialCall | None:
        """Return the call a piece belongs to; a new one where its index, or its id where it has none, is new.

        Some servers give every call the index 0, others a fresh id to every piece: a new id at a known place begins
        another call only where it comes with a name. None once the message is beyond its limit.
        """
        known = self._at_index.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        other = known is not None and bool(known.id and call_id) and known.id != call_id
        if known is not None and not (other and named):
            return known
        if not self._has_room(CALL_BYTES + len(call_id)):
            return None
        call = PartialCall(place=index if index is not None else len(self._calls))
        self._calls.append(call)
        if index is not None:
            self._at_index[index] = call
        return call

    def _keep(self, buffer: bytearray, text: str) -> None:
        data = text.encode()
        if self._has_room(len(data)):
            buffer += data

    def _forget(self) -> None:
        self._details.clear()
        self._calls.clear()
        self._at_index.clear()
        self._legacy = None
        for text in self._texts.values():
            text.clear()


def read_reply(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object.

    The message keeps its exact bytes.
    """
    answer = read_fields(body)
    if answer is None:
        return Reply(outcome="cut")
    choice = find_first_choice(answer) if answer.span("error") == ABSENT else None
    outcome = "failed" if choice is None else _outcome(choice) or "completed"
    item = read_item(choice.span("message")) if choice is not None and outcome != "failed" else None
    said = Reply(items=(item,) if item else (), response_id=answer.text("id"), outcome=outcome)
    return _counted(said, answer.object("usage"))


# No model was asked, and nothing was counted.
NO_USAGE: Final[Json] = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of a completed answer.

    The usage stands in the last chunk that has a choice: a chunk without any breaks clients that did not ask for usage.
    """
    chunks = [
        _chunk(answer, delta={"role": "assistant", "content": ""}),
        _chunk(answer, delta={"content": answer.text}),
        _chunk(answer, delta={}, finish_reason="stop") | {"usage": NO_USAGE},
    ]
    # JSON as it is written here holds no line break, so one data line carries any text.
    return b"".join(b"data: " + encode(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def render_answer(answer: Answer) -> bytes:
    """Return the same answer as one JSON object, for a request that asked for no stream."""
    message: Json = {"role": "assistant", "content": answer.text, "refusal": None, "annotations": []}
    choice: Json = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return encode(_envelope(answer, kind="chat.completion") | {"choices": [choice], "usage": NO_USAGE})


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients show `message` and branch on `code`."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _chunk(answer: Answer, *, delta: Json, finish_reason: str | None = None) -> Json:
    choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _envelope(answer, kind="chat.completion.chunk") | {"choices": [choice]}


def _envelope(answer: Answer, *, kind: str) -> Json:
    return {"id": answer.response_id, "object": kind, "created": answer.created_at, "model": answer.model}


make_reader = ChatReplyReader
make_filter = answer_filter.ChatAnswerFilter
merge_answers = answer_filter.merge_answers

streams_items: Final = False
# Where servers put what the model says and thinks; the first that is there counts.
WORDS: Final = (("content", False), ("refusal", False), ("reasoning_content", True), ("reasoning", True))


def read_delta(event: Fields) -> Delta | None:
    choice = find_first_choice(event)
    delta = choice.inner("delta") if choice is not None else Fields({})
    return next((Delta(text=text, is_thought=thought) for name, thought in WORDS if (text := delta.text(name))), None)


def read_finished_item(event: Fields) -> Item | None:
    return None


def read_stop_reason(event: Fields) -> str | None:
    choice = find_first_choice(event)
    return choice.text("finish_reason") if choice is not None else None


def read_speech(item: Item) -> Speech:
    return read_speech_parts(read_object(item.raw) or {})


def find_first_choice(answer: Fields) -> Fields | None:
    """Return the choice that counts: the one at index 0, or without an index."""
    choices = (read_fields(choice) for choice in answer.elements("choices") or [])
    return next((choice for choice in choices if choice is not None and not choice.count("index")), None)
