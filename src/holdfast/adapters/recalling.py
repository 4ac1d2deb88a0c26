"""What a host's model is shown as its recall tool, and what that answers."""

from __future__ import annotations

from typing import Final

from holdfast.errors import RecordNotFound
from holdfast.runtime import Thread

NAME: Final = "recall"
DESCRIPTION: Final = (
    "Find what was said or returned earlier in this conversation, word for word, also what is no longer in view."
    " Give words of what you look for, or a pointer such as #123."
)
HITS: Final = 5
RECALLED: Final = "What was said, word for word:"
NOTHING: Final = "Nothing that was said matches."


async def recalled_text(thread: Thread, query: str) -> str:
    """Return the originals that answer `query`, each under its pointer; a text that says so where there are none."""
    try:
        hits = await thread.recall(query, limit=2 * HITS)
    except RecordNotFound:
        return NOTHING
    fresh = [hit for hit in hits if not await _is_echo(thread, str(hit.pointer))]
    return "\n\n".join((RECALLED, *(f"[{hit.pointer}]\n{hit.text}" for hit in fresh[:HITS]))) if fresh else NOTHING


async def _is_echo(thread: Thread, pointer: str) -> bool:
    """Whether a record is itself a question to this tool, or what it answered; neither answers anything."""
    try:
        view = thread.dialect.view(thread.dialect.parse(await thread.original(pointer)))
    except RecordNotFound:
        return False
    return view.tool == NAME or view.text.startswith(RECALLED)
