"""Answers of the Messages API, read and written: this module is the dialect's `Wire`."""

from __future__ import annotations

from threadkeep.dialects.messages.answer import render_answer, render_answer_stream, render_error
from threadkeep.dialects.messages.stream import ReplyAssembler as make_reader
from threadkeep.dialects.messages.stream import read_reply

__all__ = ["make_reader", "read_reply", "render_answer", "render_answer_stream", "render_error"]
