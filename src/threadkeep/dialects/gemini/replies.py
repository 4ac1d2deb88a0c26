"""Answers of `generateContent`, read and written: this module is the dialect's `Wire`.

A stream is a run of whole answers, each with the next parts: as events, or as the elements of one JSON list. What is read is
hostile input: a reader never raises, keeps no more than `MAX_REPLY_BYTES`, and skips what it cannot read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec.json import encode

from threadkeep.dialects.gemini import answer_filter
from threadkeep.dialects.gemini.parts import is_thought, list_parts
from threadkeep.dialects.raw_json import (
    ABSENT,
    Fields,
    encode_value,
    join_list,
    read_fields,
    read_item,
    read_object,
    split_list,
)
from threadkeep.dialects.reply_reader import ReplyReader, count_tokens
from threadkeep.dialects.values import Answer, Delta, Outcome, Reply, Speech
from threadkeep.items import Item

# What each part of our own costs beside its bytes, so that a stream of empty parts meets the same limit.
PART_BYTES: Final = 64

# What the API calls each status, which clients branch on.
STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiReplyReader(ReplyReader):
    """See `threadkeep.dialects.reply_reader.ReplyReader`.

    Neighbouring pieces of text become one part; a part with a signature, or of any other kind, keeps its exact bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._open: tuple[bool, list[str]] | None = None

    @property
    def reply(self) -> Reply:
        parts = [*self._parts, *self._open_part()]
        if not parts or self._said.outcome in ("cut", "failed"):
            return self._said
        return replace(self._said, items=(Item(b'{"role":"model","parts":' + join_list(parts) + b"}"),))

    def take_all(self, answers: Sequence[bytes]) -> None:
        """Take the answers of a list, which are what a stream has as events."""
        for fields in map(read_fields, answers):
            if fields is not None and not self._done:
                self._take(fields, size=0)

    def _take(self, answer: Fields, *, size: int) -> None:
        self._said = _count(self._said, answer)
        candidate = find_first_candidate(answer)
        if candidate is not None:
            for part in candidate.inner("content").elements("parts") or []:
                self._take_part(part)
        if (outcome := _find_outcome(answer, candidate)) is not None:
            self._said = replace(self._said, outcome=outcome)
            self._done = True

    def _take_part(self, span: bytes) -> None:
        item = read_item(span)
        part = read_object(span)
        if not self._has_room(len(span) + PART_BYTES) or item is None or part is None:
            return
        text, thought = part.get("text"), part.get("thought", False)
        if isinstance(text, str) and isinstance(thought, bool) and part.keys() <= {"text", "thought"}:
            if self._open is None or self._open[0] is not thought:
                self._parts.extend(self._open_part())
                self._open = (thought, [])
            self._open[1].append(text)
            return
        self._parts.extend(self._open_part())
        self._open = None
        self._parts.append(item.raw)

    def _forget(self) -> None:
        self._parts.clear()
        self._open = None

    def _open_part(self) -> list[bytes]:
        if self._open is None:
            return []
        thought, texts = self._open
        return [encode_value({"text": "".join(texts), **({"thought": True} if thought else {})})]


make_reader = GeminiReplyReader
make_filter = answer_filter.GeminiAnswerFilter
merge_answers = answer_filter.merge_answers


def read_reply(body: bytes) -> Reply:
    """Return the reply that an answer carries which came as one object, or as a list; `cut` if it cannot be read."""
    if body.lstrip().startswith(b"["):
        return _read_list(body)
    answer = read_fields(body)
    if answer is None:
        return Reply(outcome="cut")
    candidate = find_first_candidate(answer)
    outcome = _find_outcome(answer, candidate) or ("completed" if candidate is not None else "failed")
    item = read_item(candidate.span("content")) if candidate is not None and outcome != "failed" else None
    return _count(Reply(items=(item,) if item else (), outcome=outcome), answer)


def _read_list(body: bytes) -> Reply:
    answers = split_list(body)
    if answers is None:
        return Reply(outcome="cut")
    reader = GeminiReplyReader()
    reader.take_all(answers)
    return reader.reply


def _find_outcome(answer: Fields, candidate: Fields | None) -> Outcome | None:
    """Return how an answer ended; None while it goes on."""
    if answer.span("error") != ABSENT:
        return "failed"
    if candidate is None:
        return "incomplete" if answer.inner("promptFeedback").text("blockReason") else None
    reason = candidate.text("finishReason")
    if not reason or reason == "FINISH_REASON_UNSPECIFIED":
        return None
    return "completed" if reason == "STOP" else "incomplete"


def _count(said: Reply, answer: Fields) -> Reply:
    """Return `said` with the counts of an answer; what it leaves out stays as it was. Thoughts are written too."""
    usage = answer.inner("usageMetadata")
    written, thought = usage.count("candidatesTokenCount"), usage.count("thoughtsTokenCount")
    output = None if written is None and thought is None else (written or 0) + (thought or 0)
    said = replace(said, response_id=said.response_id or answer.text("responseId"))
    return count_tokens(said, read=usage.count("promptTokenCount"), written=output, cached=usage.count("cachedContentTokenCount"))


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of an answer of ours: one event."""
    return b"data: " + render_answer(answer) + b"\r\n\r\n"


def render_answer(answer: Answer) -> bytes:
    """Return an answer of ours as one JSON object. No model was asked, and nothing was counted."""
    content = {"role": "model", "parts": [{"text": answer.text}]}
    return encode(
        {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0},
            "modelVersion": answer.model,
            "responseId": answer.response_id,
        }
    )


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an error with HTTP status `status`; clients branch on its name, and may on the reason in its details."""
    name = STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "threadkeep"}]
    return encode({"error": {"code": status, "message": message, "status": name, "details": details}})


streams_items: Final = False
REFUSALS: Final = frozenset({"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "IMAGE_SAFETY"})


def read_delta(event: Fields) -> Delta | None:
    candidate = find_first_candidate(event)
    content = read_object(candidate.span("content")) if candidate is not None else None
    parts = [part for part in list_parts(content or {}) or [] if isinstance(part.get("text"), str) and part["text"]]
    if not parts:
        return None
    thoughts = is_thought(parts[0])
    return Delta(text="".join(part["text"] for part in parts if is_thought(part) is thoughts), is_thought=thoughts)


def read_finished_item(event: Fields) -> Item | None:
    return None


def read_stop_reason(event: Fields) -> str | None:
    candidate = find_first_candidate(event)
    reason = candidate.text("finishReason") if candidate is not None else event.inner("promptFeedback").text("blockReason")
    return "refusal" if reason in REFUSALS else reason


def read_speech(item: Item) -> Speech:
    parts = list_parts(read_object(item.raw) or {}) or []
    texts = (part.get("text") for part in parts if not is_thought(part))
    return Speech(text="".join(text for text in texts if isinstance(text, str)))


def find_first_candidate(answer: Fields) -> Fields | None:
    """Return the candidate that counts: the one at index 0, or without an index."""
    candidates = (read_fields(candidate) for candidate in answer.elements("candidates") or [])
    return next((each for each in candidates if each is not None and not each.count("index")), None)
