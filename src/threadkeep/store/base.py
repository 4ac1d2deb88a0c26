"""The port between threads and where they are stored.

A store stores; it decides nothing. It knows records, their order and their bytes, never what they mean: which records
form a window, where a fork begins and what a rollback takes back is decided above it, once, in `threadkeep.threads`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class RecordKind(StrEnum):
    """What a record is. Stored by value; the database refuses any other."""

    META = "meta"
    TURN = "turn"
    CONTEXT = "context"
    ITEM = "item"
    REPLY = "reply"
    CHECKPOINT = "checkpoint"
    UNDO = "undo"
    ROLLBACK = "rollback"
    MAIL = "mail"
    NOTE = "note"


# The kinds a thread has many of; the index on landmarks leaves them out.
NOT_LANDMARKS = frozenset({RecordKind.ITEM, RecordKind.REPLY, RecordKind.NOTE, RecordKind.MAIL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """The owner of threads. `key` is random, made with the tenant, and keys its `c1` digests."""

    name: str
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewThread:
    """A thread about to be created.

    `start` is its first ordinal: 0, or, for a fork, the parent's ordinal it begins at. Ordinals therefore only grow
    along a path that crosses forks, and `#123` means one record wherever it is read.
    """

    id: str
    dialect: str
    created_at_ms: int
    start: int = 0
    parent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """A stored thread. `next` is the ordinal of its next record."""

    id: str
    dialect: str
    created_at_ms: int
    updated_at_ms: int
    start: int
    parent: str | None
    next: int

    @classmethod
    def from_columns(cls, columns: Sequence[Any]) -> ThreadRow:
        """Make a row of its columns, selected in the order of the attributes."""
        return cls(**dict(zip(cls.__dataclass_fields__, columns, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record about to be appended.

    Attributes:
        at_ms: When it happened by the writer's clock. Clocks go backwards, so every method orders by ordinal, and no store
            refuses a record for its time.
        target: The ordinal it points at: a rollback's new end of path, an undo's checkpoint, a checkpoint's cut, the
            checkpoint that a person's remark or a failed compaction refers to, or itself where a chain begins anew (`meta`).
        chain: The `c1` digest of the history up to and including this record, on what a client could resend; on a reply, a digest
            of its id, by which a client may name it.
        depth: How many links the history has.
        redacted: The body was changed before it was stored, so its chain digest, taken over what was received, cannot be proven.
    """

    kind: RecordKind
    at_ms: int
    turn: int
    tokens: int
    body: bytes
    target: int | None = None
    chain: bytes | None = None
    depth: int | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored record.

    `digest` is the `b1` digest of the body that was appended. `body` is empty if it was not asked for, or is `erased`: the
    record, its digests and its place stay, its bytes are gone for good.
    """

    thread_id: str
    ordinal: int
    kind: RecordKind
    at_ms: int
    turn: int
    tokens: int
    body: bytes
    digest: bytes
    target: int | None = None
    chain: bytes | None = None
    depth: int | None = None
    redacted: bool = False
    erased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record with one of the chain digests asked for."""

    chain: bytes
    thread_id: str
    ordinal: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The records of one thread from `start` up to but not including `stop`."""

    thread_id: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record that matches a search; a higher score is a better match."""

    thread_id: str
    ordinal: int
    score: float


class ThreadStore(Protocol):
    """The records of one tenant.

    Every method may be called from any task of the event loop that opened the store; none blocks it. Foreign errors
    never escape: they arrive as a `StoreError`.
    """

    @property
    def tenant(self) -> Tenant:
        """The owner of the records."""
        ...

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        """Create `thread` with `records` as its first ones, as one unit. Durable when it returns.

        Raises:
            ThreadExists: The tenant has a thread of that id.
            ThreadNotFound: Its parent is not there.
        """
        ...

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        """Append `records` as one unit and return the next ordinal.

        Durable when it returns. On any error nothing was written. Appends of concurrent tasks share one commit.

        Raises:
            OrdinalConflict: Another writer appended since `expected` was read.
            ThreadNotFound: There is no such thread.
        """
        ...

    async def get(self, thread_id: str) -> ThreadRow:
        """Return the thread's row.

        Raises:
            ThreadNotFound: There is no such thread.
        """
        ...

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        """List threads whose id starts with `prefix`, the most recently written first, whatever their clocks said."""
        ...

    async def read(
        self,
        span: Span,
        *,
        kinds: Collection[RecordKind] | None = None,
        ordinals: Collection[int] | None = None,
        turn: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        bodies: bool = True,
    ) -> list[Record]:
        """Return the records of `span` that match every given filter, in ordinal order.

        A thread or an ordinal that is not there yields nothing. `bodies=False` leaves `body` empty and does not read it.
        """
        ...

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        """Return every record whose chain digest is among `chains`, the newest record first."""
        ...

    async def close(self) -> None:
        """Finish what was accepted and release every resource. Later calls raise `StoreClosed`."""
        ...


class Search(Protocol):
    """Full text over records; an index that can be rebuilt from them."""

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        """Return the best matches for any word of `query` among the item records of `spans`.

        Sees every record that was durable when it was called, and nothing of what was erased by then.
        """
        ...


class Leases(Protocol):
    """Rows that let one of many workers hold a piece of work."""

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        """Take the lease on `key` for `ttl_ms`, or renew it; false while another holder's has not expired.

        If `now_ms` is before the moment another holder took it, the clock went backwards: that lease then expires its own
        `ttl_ms` from now, not when the clock has caught up.
        """
        ...

    async def release(self, key: str, *, holder: str) -> None:
        """Release the lease; nothing happens if `holder` does not have it."""
        ...


class Erasure(Protocol):
    """Make bytes unreadable for good; nothing else is ever removed from a store."""

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        """Turn the bodies of these records into tombstones and return how many records lost theirs.

        A tenant has each body once, however often it was appended: every record of the tenant with the same bytes loses
        them, in any thread, and is counted. Text derived from them (a preview, a summary) is in other records, which the caller
        must name. Ordinals that are not there, and records erased before, are skipped.

        When it returns the bytes are in no file of the store. If they are appended again later, that record has its body, and
        those erased before stay erased.

        Raises:
            ThreadNotFound: There is no such thread.
            StoreError: The records are erased, but another process still uses the bytes; erasing again finishes it.
        """
        ...


class Watch(Protocol):
    """Wait for something to be written."""

    async def wait(self, *, within_s: float) -> bool:
        """Return True once mail or a checkpoint was written that no call here reported yet; False after `within_s`, or sooner.

        True is a reason to look, never a promise that there is something new. Records of other kinds may be reported or not: a
        caller that must see them soon passes a short `within_s`. While a store is not notified of other processes' writes, it
        returns early, ever less often, so that callers look by themselves.
        """
        ...


class Notify(Protocol):
    """Be notified when any process writes something, instead of polling."""

    def watch(self, thread_id: str | None = None) -> AbstractAsyncContextManager[Watch]:
        """Watch one thread, or all of the tenant's, inside the block: what is committed after it was entered is reported.

        Raises:
            ThreadNotFound: There is no such thread.
        """
        ...


class FullStore(ThreadStore, Search, Leases, Erasure, Notify, Protocol):
    """A store with every optional port; all backends are."""
