"""Answers of the Responses API, read and written: this module is the dialect's `Wire`."""

from __future__ import annotations

from threadkeep.dialects.responses.answer import render_answer, render_answer_stream, render_error
from threadkeep.dialects.responses.stream import ReplyAssembler as make_reader
from threadkeep.dialects.responses.stream import read_reply

__all__ = ["make_reader", "read_reply", "render_answer", "render_answer_stream", "render_error"]
