"""What a tenant's memory holds, each linked to the records that said it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from threadkeep.client import Threadkeep
from threadkeep.errors import InvalidPointer
from threadkeep.memory import Kept
from threadkeep.memory.memory import Memories
from threadkeep.threads import Pointer, parse_pointer

# The most useful ones; a search finds the rest.
MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory and the records behind it."""

    memory: Kept
    sources: tuple[Pointer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Memories that fit, of how many; threads that were read and wait to be taken in, and those to be tried again."""

    found: tuple[Memory, ...]
    total: int
    pending: int
    failures: int


async def remembered(tk: Threadkeep, words: str) -> Remembered:
    """Return the memories that match some words; without any, the most useful ones."""
    memories = Memories(tk.backend)
    state = await memories.state()
    found = await memories.search(words, limit=MOST_SHOWN) if words else state.memories[:MOST_SHOWN]
    return Remembered(
        found=tuple(Memory(memory=kept, sources=tuple(_pointers(kept.sources))) for kept in found),
        total=len(state.memories),
        pending=len(state.pending),
        failures=len(state.failures),
    )


def _pointers(sources: Sequence[str]) -> Iterator[Pointer]:
    """Yield what can be linked; a source written by hand may be anything."""
    for source in sources:
        try:
            yield parse_pointer(source)
        except InvalidPointer:
            continue
