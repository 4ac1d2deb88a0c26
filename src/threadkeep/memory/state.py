"""What is remembered now, and search in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from threadkeep.memory.records import Cited, Extracted, Failed, Kept, MemoryRecord, Snapshot
from threadkeep.store.search_words import space_cjk, split_phrases


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """A tenant's memory.

    Attributes:
        pending: What was extracted and not yet consolidated, by thread.
        failures: Threads whose last extraction failed.
        citations: How often memories were cited since the snapshot.
    """

    snapshot: Snapshot = field(default_factory=lambda: Snapshot(at_ms=0, memories=[], watermarks={}))
    pending: dict[str, Extracted] = field(default_factory=dict)
    failures: dict[str, Failed] = field(default_factory=dict)
    citations: int = 0

    @property
    def memories(self) -> list[Kept]:
        """Every memory, the most useful first."""
        return sorted(self.snapshot.memories, key=rank, reverse=True)

    def leaves_alone(self, thread_id: str) -> bool:
        """Whether nothing is to be remembered from a thread."""
        return thread_id in self.snapshot.forgotten or thread_id in self.snapshot.polluted

    def watermark(self, thread_id: str) -> int:
        """Return the ordinal up to which a thread was read."""
        waiting = self.pending.get(thread_id)
        return waiting.watermark if waiting is not None else self.snapshot.watermarks.get(thread_id, 0)

    def find(self, memory_id: str) -> Kept | None:
        return next((memory for memory in self.snapshot.memories if memory.id == memory_id), None)


def rank(memory: Kept) -> tuple[bool, int, int, str]:
    """Return what orders memories by use: a person's own first, then by how often and how lately they were of use."""
    return memory.pinned, memory.used, max(memory.used_ms, memory.seen_ms), memory.id


def folded(records: Iterable[MemoryRecord]) -> MemoryState:
    """Return the state that records, oldest first, add up to."""
    state = MemoryState()
    for record in records:
        match record:
            case Snapshot():
                state = MemoryState(snapshot=record, failures=state.failures)
            case Extracted():
                state.pending[record.thread] = record
                state.failures.pop(record.thread, None)
            case Failed():
                state.failures[record.thread] = record
            case Cited():
                state = replace(state, snapshot=_used(state.snapshot, record), citations=state.citations + 1)
    return state


def _used(snapshot: Snapshot, cited: Cited) -> Snapshot:
    memories = [
        msgspec.structs.replace(memory, used=memory.used + 1, used_ms=max(memory.used_ms, cited.at_ms))
        if memory.id in cited.ids
        else memory
        for memory in snapshot.memories
    ]
    return msgspec.structs.replace(snapshot, memories=memories)


_citation = re.compile(r"\[memory:\s*(m[0-9a-f]{10}(?:\s*,\s*m[0-9a-f]{10})*)\s*\]")
_name = re.compile(r"m[0-9a-f]{10}")
# Words of four letters and more match by how they begin: "deploys" finds "deploy".
STEM_CHARS = 4


def found(memories: Sequence[Kept], query: str, *, limit: int) -> list[Kept]:
    """Return the memories that share most words with `query`, of equals the most useful first; none that shares no word."""
    asked = [_stem(word) for word in split_phrases(query.casefold())]
    scored = [(sum(word in _words(memory) for word in asked), rank(memory), memory) for memory in memories]
    best = sorted((each for each in scored if each[0]), key=lambda each: each[:2], reverse=True)
    return [memory for _, _, memory in best[:limit]]


def cited_in(text: str) -> list[str]:
    """Return the names of memories that a text cites as `[memory:NAME]`, each once, in order."""
    return list(dict.fromkeys(name for match in _citation.finditer(text) for name in _name.findall(match[1])))


def _words(memory: Kept) -> str:
    return f" {space_cjk(memory.text.casefold())} ".replace("  ", " ")


def _stem(word: str) -> str:
    return f" {word[: max(STEM_CHARS, len(word) - 2)]}" if word.isalpha() and word.isascii() else word
