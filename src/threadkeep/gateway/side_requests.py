"""Requests a client makes on its own behalf: titles, summaries of its own. They are no part of any conversation.

Each is told by two signs that are independent of each other, of which words are at most one: words belong to releases, and anyone
may type them. Sub-agents are none of these; they hold conversations of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from threadkeep.dialects import Dialect, Request
from threadkeep.dialects.raw_json import read_object
from threadkeep.gateway.hints import Hints
from threadkeep.gateway.rules import CLAUDE_CODE

EMPTY: Final = frozenset({b"null", b"[]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A request told by how its instructions begin, by having no tools, and by what its only message says."""

    instructions: str
    says: str = ""


WITHOUT_TOOLS: Final = (
    Kind(instructions="You are a title generator"),
    Kind(instructions="You are a context summarization agent", says="<conversation>"),
    Kind(instructions="You are a context summarization assistant", says="<conversation>"),
)
# Claude Code asks for its summary behind the history itself, in the last part of the last message.
SUMMARY_REQUEST: Final = "CRITICAL: Respond with TEXT ONLY"


def is_side_request(request: Request, *, path: str, hints: Hints, dialect: Dialect) -> bool:
    """Whether a request is no step of a conversation, as far as it tells by itself; see also `asks_for_summary`."""
    if hints.is_own_business or dialect.api.is_side_request(request, path=path):
        return True
    if asks_for_summary(request) and hints.client == CLAUDE_CODE:
        return True
    return request.fields.get("tools", b"null") in EMPTY and any(_is(kind, request, dialect) for kind in WITHOUT_TOOLS)


def asks_for_summary(request: Request) -> bool:
    """Whether a request ends with the words Claude Code asks for a summary with; without its headers a known history must
    stand before them.
    """
    last = (read_object(request.items[-1].raw) or {}) if request.items else {}
    content = last.get("content")
    part = content[-1] if isinstance(content, list) and content else content
    text = part.get("text") if isinstance(part, dict) else part
    return last.get("role") == "user" and isinstance(text, str) and text.startswith(SUMMARY_REQUEST)


def _is(kind: Kind, request: Request, dialect: Dialect) -> bool:
    if not dialect.api.find_instructions(request).lstrip().startswith(kind.instructions):
        return False
    return not kind.says or (len(request.items) == 1 and kind.says in dialect.view(request.items[0]).text)
