"""Answers of the Responses API, read and written: this module is the dialect's `Wire`.

The answer is hostile input: a reader never raises, keeps nothing it does not need, and does work in proportion to the
bytes it was given. What it cannot read it skips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec.json import encode

from threadkeep.dialects.openai_parts import read_speech_parts
from threadkeep.dialects.raw_json import ABSENT, Fields, Json, read_fields, read_item, read_object
from threadkeep.dialects.reply_reader import ReplyReader
from threadkeep.dialects.responses import answer_filter
from threadkeep.dialects.values import Answer, Delta, Outcome, Reply, Speech
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


class ResponsesReplyReader(ReplyReader):
    """See `threadkeep.dialects.reply_reader.ReplyReader`."""

    def __init__(self) -> None:
        super().__init__()
        self._streamed: dict[int, Item] = {}
        self._next_index = 0

    @property
    def reply(self) -> Reply:
        if not self._streamed:
            return self._said
        return replace(self._said, items=tuple(self._streamed[index] for index in sorted(self._streamed)))

    def _take(self, event: Fields, *, size: int) -> None:
        kind = event.text("type") or ""
        if kind == "response.output_item.done":
            self._take_item(event, size=size)
        elif kind in TERMINAL:
            said = _reply(event.inner("response"), outcome=TERMINAL[kind])
            self._said = replace(said, response_id=said.response_id or self._said.response_id)
            self._done = True
        elif kind == "response.created":
            self._said = replace(self._said, response_id=event.inner("response").text("id"))

    def _forget(self) -> None:
        self._streamed.clear()

    def _take_item(self, event: Fields, *, size: int) -> None:
        item = read_item(event.span("item"))
        if not self._has_room(size) or item is None:
            return
        index = event.count("output_index")
        place = self._next_index if index is None else index
        self._streamed[place] = item
        self._next_index = max(self._next_index, place + 1)


# No model was asked, and nothing was counted.
NO_USAGE: Final[Json] = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of a completed response whose output is one assistant message."""
    empty = make_response(answer, status="in_progress")
    message = _message(answer)
    part = make_part(answer.text)
    place: Json = {"item_id": answer.message_id, "output_index": 0, "content_index": 0}
    completed = empty | {"status": "completed", "output": [message], "usage": NO_USAGE}
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": empty}),
        ("response.in_progress", {"response": empty}),
        ("response.output_item.added", {"output_index": 0, "item": message | {"status": "in_progress", "content": []}}),
        ("response.content_part.added", place | {"part": make_part("")}),
        ("response.output_text.delta", place | {"delta": answer.text, "logprobs": []}),
        ("response.output_text.done", place | {"text": answer.text, "logprobs": []}),
        ("response.content_part.done", place | {"part": part}),
        ("response.output_item.done", {"output_index": 0, "item": message}),
        ("response.completed", {"response": completed}),
    ]
    return b"".join(render_event(kind, sequence_number=number, fields=fields) for number, (kind, fields) in enumerate(events))


def render_answer(answer: Answer) -> bytes:
    """Return the same completed response as one JSON object, for a request that asked for no stream."""
    return encode(make_response(answer, status="completed") | {"output": [_message(answer)], "usage": NO_USAGE})


def render_empty_stream(answer: Answer) -> bytes:
    """Return the event stream of a completed response without any output."""
    empty = make_response(answer, status="in_progress")
    completed = empty | {"status": "completed", "usage": NO_USAGE}
    events = [("response.created", empty), ("response.completed", completed)]
    written = (
        render_event(kind, sequence_number=number, fields={"response": said}) for number, (kind, said) in enumerate(events)
    )
    return b"".join(written)


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients show `message` and branch on `code`."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def render_event(kind: str, *, sequence_number: int, fields: Mapping[str, object]) -> bytes:
    # JSON as it is written here holds no line break, so one data line carries any text.
    body = encode({"type": kind, "sequence_number": sequence_number, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"


def make_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(answer: Answer) -> Json:
    content = [make_part(answer.text)]
    return {"id": answer.message_id, "type": "message", "status": "completed", "role": "assistant", "content": content}


def make_response(answer: Answer, *, status: str) -> Json:
    return {
        "id": answer.response_id,
        "object": "response",
        "created_at": answer.created_at,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": answer.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
    }


make_reader = ResponsesReplyReader
make_filter = answer_filter.ResponsesAnswerFilter
merge_answers = answer_filter.merge_answers

streams_items: Final = True
# What an event of each type says, and whether it is a thought.
WORDS: Final = {
    "response.output_text.delta": False,
    "response.refusal.delta": False,
    "response.reasoning_summary_text.delta": True,
    "response.reasoning_text.delta": True,
}


def read_delta(event: Fields) -> Delta | None:
    kind = event.text("type") or ""
    text = event.text("delta") if kind in WORDS else None
    return Delta(text=text, is_thought=WORDS[kind]) if text else None


def read_finished_item(event: Fields) -> Item | None:
    return read_item(event.span("item")) if event.text("type") == "response.output_item.done" else None


def read_stop_reason(event: Fields) -> str | None:
    return (event.object("response") or event).inner("incomplete_details").text("reason")


def read_speech(item: Item) -> Speech:
    fields = read_object(item.raw) or {}
    return read_speech_parts(fields) if fields.get("type", "message") == "message" else Speech(text="")
