"""Answers of the Messages API, read and written: this module is the dialect's `Wire`."""

from __future__ import annotations

from threadkeep.dialects.messages.answer import answer_json, answer_stream, error_json
from threadkeep.dialects.messages.stream import ReplyAssembler as reply_reader
from threadkeep.dialects.messages.stream import reply_from_json

__all__ = ["answer_json", "answer_stream", "error_json", "reply_from_json", "reply_reader"]
