"""The wire languages items are written in. A new one costs a folder, a line here, and its upstream's settings."""

from __future__ import annotations

from threadkeep.dialects.base import Dialect, Wire
from threadkeep.dialects.chat.dialect import CHAT
from threadkeep.dialects.gemini.dialect import GEMINI
from threadkeep.dialects.messages.dialect import MESSAGES
from threadkeep.dialects.reply_reader import ReplyReader
from threadkeep.dialects.responses.dialect import RESPONSES
from threadkeep.dialects.values import Answer, AnswerForm, Delta, Reply, Request, Speech, Target
from threadkeep.errors import UnknownDialect
from threadkeep.items import Item, ToolCall

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (RESPONSES, CHAT, MESSAGES, GEMINI)}
HISTORY_FIELDS = frozenset(dialect.history_field for dialect in DIALECTS.values())
# The dialect of what is asked for without naming one.
DEFAULT: Dialect = RESPONSES


def find_dialect(name: str) -> Dialect:
    """Return the dialect called `name`.

    Raises:
        UnknownDialect: There is none.
    """
    try:
        return DIALECTS[name]
    except KeyError:
        raise UnknownDialect(name, known=tuple(DIALECTS)) from None


def render_search_text(dialect: str, raw: bytes) -> str:
    """Return what a search index should know about a stored item."""
    view = find_dialect(dialect).view(Item(raw))
    return view.text if view.said in view.text else f"{view.text}\n{view.said}"


__all__ = [
    "CHAT",
    "DEFAULT",
    "DIALECTS",
    "GEMINI",
    "HISTORY_FIELDS",
    "MESSAGES",
    "RESPONSES",
    "Answer",
    "AnswerForm",
    "Delta",
    "Dialect",
    "Reply",
    "ReplyReader",
    "Request",
    "Speech",
    "Target",
    "ToolCall",
    "Wire",
    "find_dialect",
    "render_search_text",
]
