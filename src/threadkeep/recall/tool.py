"""The recall tool: its description for models and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from threadkeep.errors import RecordNotFound
from threadkeep.recall import Recalled

NAME: Final = "recall"
DESCRIPTION: Final = (
    "Find what was said or returned earlier in this conversation, word for word, also what is no longer in view."
    " Give words of what you look for, or a pointer such as #123."
)
ARGUMENT: Final = "query"
PARAMETERS: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {ARGUMENT: {"type": "string", "description": "words of what you look for, or a pointer such as #123"}},
    "required": [ARGUMENT],
    "additionalProperties": False,
}
HITS: Final = 5
RECALLED: Final = "What was said, word for word:"
NOTHING: Final = "Nothing that was said matches."


class Recallable(Protocol):
    """A thread that can recall; see `Thread.recall`."""

    async def recall(self, query: str, *, limit: int = ...) -> list[Recalled]: ...


async def render_recall(thread: Recallable, query: str) -> str:
    """Return the originals that answer `query` as text, each under its pointer; says so if there are none."""
    found = await recall_for_tool(thread, query)
    return "\n\n".join((RECALLED, *(f"[{hit.pointer}]\n{hit.text}" for hit in found))) if found else NOTHING


async def recall_for_tool(thread: Recallable, query: str) -> list[Recalled]:
    """Return up to `HITS` originals that answer `query`, best first; none if a pointer resolves to nothing."""
    try:
        return await thread.recall(query, limit=HITS)
    except RecordNotFound:
        return []
