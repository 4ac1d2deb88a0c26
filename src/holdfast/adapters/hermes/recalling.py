"""The engine's tool: the original of anything the session ever said."""

from __future__ import annotations

from typing import Any, Final

from holdfast.adapters.recalling import DESCRIPTION, HITS, NAME
from holdfast.errors import RecordNotFound
from holdfast.runtime import Thread

__all__ = ["ARGUMENT", "NAME", "SCHEMA", "answer"]

ARGUMENT: Final = "query"
SCHEMA: Final[dict[str, Any]] = {
    "name": NAME,
    "description": DESCRIPTION,
    "parameters": {
        "type": "object",
        "properties": {ARGUMENT: {"type": "string", "description": "words to look for, or a pointer such as #123"}},
        "required": [ARGUMENT],
    },
}
# How an answer begins on the wire, so that a later question does not find it in place of the original.
OPENING: Final = '{"recalled"'


async def answer(thread: Thread, query: str) -> dict[str, Any]:
    """Return the originals that answer `query`, best first, with their pointers."""
    try:
        hits = await thread.recall(query, limit=3 * HITS)
    except RecordNotFound:
        hits = []
    fresh = [hit for hit in hits if not await _is_echo(thread, str(hit.pointer))]
    return {"recalled": [{"pointer": str(hit.pointer), "text": hit.text} for hit in fresh[:HITS]]}


async def _is_echo(thread: Thread, pointer: str) -> bool:
    """Whether a record is itself a question to this tool, or what it answered."""
    try:
        view = thread.dialect.view(thread.dialect.parse(await thread.original(pointer)))
    except RecordNotFound:
        return False
    return view.tool == NAME or view.text.startswith(OPENING)
