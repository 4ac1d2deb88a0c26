"""Records of the memory thread, and the state they add up to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal

import msgspec

from threadkeep.store.search_words import space_cjk, split_phrases
from threadkeep.threads.records import Body

_space = re.compile(r"\s+")

Kind = Literal["rule", "decision", "fact"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One extracted memory: its text and the record it comes from."""

    kind: Kind
    text: str
    source: str


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory. `seen_ms` is when a thread last said it, `used_ms` when it was last cited; a person's edit pins it.

    `said` maps threads to the record where they say it, which may be their parent's; `sources` are those records.
    """

    id: str
    kind: Kind
    text: str
    sources: list[str]
    seen_ms: int
    said: dict[str, str] = msgspec.field(default_factory=dict)
    used: int = 0
    used_ms: int = 0
    pinned: bool = False


class FailedExtraction(Body, frozen=True, kw_only=True, tag_field="memory", tag="failed"):
    """A failed extraction of a thread up to `watermark`; it is tried again from `retry_at_ms` on."""

    thread: str
    watermark: int
    error: str
    attempt: int
    retry_at_ms: int


class Extraction(Body, frozen=True, kw_only=True, tag_field="memory", tag="extracted"):
    """What was extracted from a thread up to `watermark`, possibly nothing; the newest of a thread counts.

    A `polluted` thread read untrusted text: nothing is ever extracted from it.
    """

    thread: str
    watermark: int
    at_ms: int
    entries: list[Entry]
    superseded: list[str] = msgspec.field(default_factory=list)
    fell_back_from: str | None = None
    polluted: bool = False


class Citation(Body, frozen=True, kw_only=True, tag_field="memory", tag="cited"):
    """Memories that an answer cited."""

    ids: list[str]
    at_ms: int


class Snapshot(Body, frozen=True, kw_only=True, tag_field="memory", tag="snapshot"):
    """All memories, and how far each thread was read; earlier records need not be read.

    Attributes:
        watermarks: For each thread, the ordinal up to which it was extracted.
        removed: Ids that a person removed; no thread brings them back.
        forgotten: Threads from which nothing is ever remembered.
        polluted: The same, for threads that read untrusted text.
        nonce: Makes its bytes unique.
        cleared_to: Records before this ordinal are erased, or the next writer erases them.
    """

    at_ms: int
    memories: list[Memory]
    watermarks: dict[str, int]
    removed: list[str] = msgspec.field(default_factory=list)
    forgotten: list[str] = msgspec.field(default_factory=list)
    polluted: list[str] = msgspec.field(default_factory=list)
    nonce: str = ""
    cleared_to: int = 0


MemoryRecord = Snapshot | Extraction | FailedExtraction | Citation

_reader: msgspec.json.Decoder[MemoryRecord] = msgspec.json.Decoder(MemoryRecord)


def decode_record(body: bytes) -> MemoryRecord | None:
    """Decode a record of the memory thread; None if it is no such record, or is damaged."""
    try:
        return _reader.decode(body)
    except msgspec.MsgspecError:
        return None


def encode_record(record: MemoryRecord) -> bytes:
    """Encode a record's body."""
    return msgspec.json.encode(record)


def make_memory_id(text: str) -> str:
    """Return the id of a text, the same for any spacing and capitalisation."""
    plain = _space.sub(" ", text).strip().casefold().rstrip(".!")
    return f"m{blake2b(plain.encode('utf-8', 'replace'), digest_size=5).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """A tenant's memory.

    Attributes:
        pending: What was extracted and not yet consolidated, by thread.
        failures: Threads whose last extraction failed.
        citations: How often memories were cited since the snapshot.
    """

    snapshot: Snapshot = field(default_factory=lambda: Snapshot(at_ms=0, memories=[], watermarks={}))
    pending: dict[str, Extraction] = field(default_factory=dict)
    failures: dict[str, FailedExtraction] = field(default_factory=dict)
    citations: int = 0

    @property
    def memories(self) -> list[Memory]:
        """Every memory, the most useful first."""
        return sorted(self.snapshot.memories, key=rank_memory, reverse=True)

    def is_excluded(self, thread_id: str) -> bool:
        """Whether nothing must be remembered from a thread."""
        return thread_id in self.snapshot.forgotten or thread_id in self.snapshot.polluted

    def get_watermark(self, thread_id: str) -> int:
        """Return the ordinal up to which a thread was read."""
        waiting = self.pending.get(thread_id)
        return waiting.watermark if waiting is not None else self.snapshot.watermarks.get(thread_id, 0)

    def find(self, memory_id: str) -> Memory | None:
        return next((memory for memory in self.snapshot.memories if memory.id == memory_id), None)


def rank_memory(memory: Memory) -> tuple[bool, int, int, str]:
    """Return the sort key of a memory: pinned first, then by how often and how recently it was used."""
    return memory.pinned, memory.used, max(memory.used_ms, memory.seen_ms), memory.id


def fold_records(records: Iterable[MemoryRecord]) -> MemoryState:
    """Return the state after these records, oldest first."""
    state = MemoryState()
    for record in records:
        match record:
            case Snapshot():
                state = MemoryState(snapshot=record, failures=state.failures)
            case Extraction():
                state.pending[record.thread] = record
                state.failures.pop(record.thread, None)
            case FailedExtraction():
                state.failures[record.thread] = record
            case Citation():
                state = replace(state, snapshot=_add_citation(state.snapshot, record), citations=state.citations + 1)
    return state


def _add_citation(snapshot: Snapshot, cited: Citation) -> Snapshot:
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


def find_memories(memories: Sequence[Memory], query: str, *, limit: int) -> list[Memory]:
    """Return the memories that share most words with `query`, at least one; of equals the most useful first."""
    asked = [_make_stem(word) for word in split_phrases(query.casefold())]
    scored = [(sum(word in _space_words(memory) for word in asked), rank_memory(memory), memory) for memory in memories]
    best = sorted((each for each in scored if each[0]), key=lambda each: each[:2], reverse=True)
    return [memory for _, _, memory in best[:limit]]


def find_citations(text: str) -> list[str]:
    """Return the ids of memories that a text cites as `[memory:NAME]`, each once, in order."""
    return list(dict.fromkeys(name for match in _citation.finditer(text) for name in _name.findall(match[1])))


def _space_words(memory: Memory) -> str:
    return f" {space_cjk(memory.text.casefold())} ".replace("  ", " ")


def _make_stem(word: str) -> str:
    return f" {word[: max(STEM_CHARS, len(word) - 2)]}" if word.isalpha() and word.isascii() else word
