"""Answers of the Chat Completions API, read and written."""

from __future__ import annotations

from holdfast.dialects.base import Answer, Reply, ReplyReader
from holdfast.dialects.chat import answer as writing
from holdfast.dialects.chat import stream as reading


class ChatWire:
    """See `holdfast.dialects.base.Wire` for the contract."""

    def reply_reader(self) -> ReplyReader:
        return reading.ReplyAssembler()

    def reply_from_json(self, body: bytes) -> Reply:
        return reading.reply_from_json(body)

    def answer_stream(self, answer: Answer) -> bytes:
        return writing.answer_stream(answer)

    def answer_json(self, answer: Answer) -> bytes:
        return writing.answer_json(answer)

    def error_json(self, status: int, code: str, message: str) -> bytes:
        return writing.error_json(status, code, message)
