"""What stands in the records of a tenant's memory thread. Append-only like every thread: a change of mind is a new record."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal

import msgspec

VERSION = 1
_space = re.compile(r"\s+")

Kind = Literal["rule", "decision", "fact"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing worth remembering, in the words it was said in, and the record it was said in."""

    kind: Kind
    text: str
    source: str


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory. `seen_ms` is when a thread last said it, `used_ms` when it was last cited; a person's own edit pins it.

    `said` are the threads that say it, each with the record it is said in, which may be its parent's; `sources` are the records.
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


class Failed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="memory", tag="failed"):
    """A thread that could not be extracted up to `watermark`; it is tried again, up to a bound, from `retry_at_ms` on."""

    thread: str
    watermark: int
    error: str
    attempt: int
    retry_at_ms: int
    v: int = VERSION


class Extracted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="memory", tag="extracted"):
    """What a thread holds up to `watermark`; nothing is a fair answer. The newest of a thread counts.

    `polluted` says that it read untrusted material from outside: nothing is taken from it, now or later.
    """

    thread: str
    watermark: int
    at_ms: int
    entries: list[Entry]
    superseded: list[str] = msgspec.field(default_factory=list)
    fell_back_from: str | None = None
    polluted: bool = False
    v: int = VERSION


class Cited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="memory", tag="cited"):
    """Memories that were of use."""

    ids: list[str]
    at_ms: int
    v: int = VERSION


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="memory", tag="snapshot"):
    """Everything that is remembered, and how far each thread was read: what came before it need not be read again.

    Attributes:
        watermarks: For each thread, the ordinal up to which it was extracted.
        removed: Ids a person took out; no thread brings them back.
        forgotten: Threads nothing is remembered from, now or later.
        polluted: Threads the same holds for because they read untrusted material from outside.
        nonce: Makes its bytes unlike those of any other.
        cleared_to: Records before this ordinal are erased, or will be by whoever comes next.
    """

    at_ms: int
    memories: list[Kept]
    watermarks: dict[str, int]
    removed: list[str] = msgspec.field(default_factory=list)
    forgotten: list[str] = msgspec.field(default_factory=list)
    polluted: list[str] = msgspec.field(default_factory=list)
    nonce: str = ""
    cleared_to: int = 0
    v: int = VERSION


MemoryRecord = Snapshot | Extracted | Failed | Cited

_reader: msgspec.json.Decoder[MemoryRecord] = msgspec.json.Decoder(MemoryRecord)


def read_record(body: bytes) -> MemoryRecord | None:
    """Return what a record of the memory thread says; None where it says nothing of memory, or was damaged."""
    try:
        return _reader.decode(body)
    except msgspec.MsgspecError:
        return None


def written(record: MemoryRecord) -> bytes:
    """Return a record's body."""
    return msgspec.json.encode(record)


def memory_id(text: str) -> str:
    """Return the name of what `text` says: the same whoever said it, however it was spaced or capitalised."""
    plain = _space.sub(" ", text).strip().casefold().rstrip(".!")
    return f"m{blake2b(plain.encode('utf-8', 'replace'), digest_size=5).hexdigest()}"
