"""The recall tool in the engine's own form: its schema, and answers as JSON."""

from __future__ import annotations

from typing import Any, Final

from threadkeep.client import Thread
from threadkeep.recall.tool import ARGUMENT, DESCRIPTION, NAME, PARAMETERS, recalled_by_tool

__all__ = ["ARGUMENT", "NAME", "SCHEMA", "answer"]

SCHEMA: Final[dict[str, Any]] = {"name": NAME, "description": DESCRIPTION, "parameters": dict(PARAMETERS)}
# How an answer begins on the wire, so that a later question does not find it in place of the original.
OPENING: Final = '{"recalled"'


async def answer(thread: Thread, query: str) -> dict[str, Any]:
    """Return the originals that answer `query`, best first, with their pointers."""
    found = await recalled_by_tool(thread, query)
    return {"recalled": [{"pointer": str(hit.pointer), "text": hit.text} for hit in found]}
