"""Tools that let a model search the memories of earlier threads, and read one with its sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from threadkeep.memory.memory import Memories
from threadkeep.memory.records import Memory

HITS = 8
NOTHING = "No memory matches."


def memory_tools(memory: Memories) -> list[Callable[..., object]]:
    """Return the tools. They only read; a memory counts as used when an answer cites it."""

    async def memory_search(
        query: Annotated[str, msgspec.Meta(description="Words to look for.")],
    ) -> str:
        """Search the memories of earlier work with these people. Cite what you use as [memory:NAME]."""
        found = await memory.search(query, limit=HITS)
        return "\n".join(f"{each.id} ({each.kind}) {each.text}" for each in found) or NOTHING

    async def memory_read(
        name: Annotated[str, msgspec.Meta(description="A memory's name, such as m0123456789.")],
    ) -> str:
        """Return one memory and the records it comes from."""
        found = await memory.read(name.strip().removeprefix("^"))
        return NOTHING if found is None else _render_memory(found)

    return [memory_search, memory_read]


def _render_memory(memory: Memory) -> str:
    origin = f"said in {', '.join(memory.sources)}" if memory.sources else "written by a person"
    return f"{memory.id} ({memory.kind}) {memory.text}\n{origin}"
