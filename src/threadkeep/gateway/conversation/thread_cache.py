"""Threads that were written lately, so that a request's thread need not be looked up from scratch.

Another process may have written to a thread since. Before a cached thread is used, the store is asked whether it still ends where
it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.gateway.conversation.window import Erased, Layout, load_erased, read_layout
from threadkeep.items import digest_body
from threadkeep.store import Record, ThreadStore
from threadkeep.threads import Checkpoint, ContextBody, Tip, encode_body
from threadkeep.threads.reader import find_last_usage, load_checkpoint, load_context_body, load_live_path, load_tip
from threadkeep.tokens import Calibration

THREADS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCheckpoint:
    """The checkpoint that counts, its ordinal, and its layout as it is sent."""

    ordinal: int
    checkpoint: Checkpoint
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadContext:
    """What the newest `context` record of a path says; see `threadkeep.threads.ContextBody`. `head` is a digest."""

    head: bytes
    session: str = ""
    issuer: str = ""
    issued_from: int = 0
    checkpoint: int | None = None
    bound_from: int = 0
    memory: str = ""
    started: int | None = None
    start: tuple[bytes, ...] = ()

    def encode(self, fields: dict[str, msgspec.Raw], head: list[msgspec.Raw]) -> bytes:
        """Return the record's body for a head whose digest this is."""
        return encode_body(
            ContextBody(
                fields=fields,
                head=head,
                session=self.session,
                issuer=self.issuer,
                issued_from=self.issued_from,
                checkpoint=self.checkpoint,
                bound_from=self.bound_from,
                memory=self.memory,
                started=self.started,
                start=[msgspec.Raw(raw) for raw in self.start],
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownThread:
    """A thread as it was when it was last loaded or written."""

    thread_id: str
    tip: Tip
    active: ActiveCheckpoint | None = None
    context: ThreadContext | None = None
    usage: Calibration | None = None
    erased: Erased = field(default_factory=Erased)


def digest_head(fields: dict[str, msgspec.Raw], head: list[msgspec.Raw]) -> bytes:
    """Return the digest of what a request tells the model outside its history."""
    return digest_body(encode_body(ContextBody(fields=fields, head=head)))


class ThreadCache:
    """Threads by the last link of their chain; the oldest are forgotten first."""

    def __init__(self, *, kept: int = THREADS) -> None:
        self._limit = kept
        self._threads: dict[str, KnownThread] = {}
        self._tips: dict[bytes, str] = {}

    def remember(self, known: KnownThread) -> None:
        self.forget(known.thread_id)
        self._threads[known.thread_id] = known
        self._tips[known.tip.chain] = known.thread_id
        while len(self._threads) > self._limit:
            self.forget(next(iter(self._threads)))

    def forget(self, thread_id: str) -> None:
        known = self._threads.pop(thread_id, None)
        if known is not None and self._tips.get(known.tip.chain) == thread_id:
            del self._tips[known.tip.chain]

    def is_current(self, known: KnownThread) -> bool:
        """Whether this is the newest state of a thread in this cache."""
        return self._threads.get(known.thread_id) is known

    def extend(self, thread_id: str, *, reached: int, usage: Calibration | None = None) -> None:
        """Take note that one record was appended before ordinal `reached`, which left chain and checkpoint as they were."""
        known = self._threads.get(thread_id)
        if known is None:
            return
        if not known.tip.next <= reached <= known.tip.next + 1:
            self.forget(thread_id)
            return
        self.remember(replace(known, tip=replace(known.tip, next=reached), usage=usage or known.usage))

    def find_ending(self, chain: Sequence[bytes]) -> tuple[KnownThread, int] | None:
        """Return the thread whose whole chain is the longest beginning of `chain`, and how long that is."""
        for index in range(len(chain) - 1, -1, -1):
            thread_id = self._tips.get(chain[index])
            if thread_id is not None:
                return self._threads[thread_id], index + 1
        return None


async def load_known(backend: Backend, thread_id: str, *, seed: bytes, stop: int | None = None) -> KnownThread:
    """Return a thread as it stands before ordinal `stop` (now, if None)."""
    store = backend.store
    end = (await store.get(thread_id)).next if stop is None else stop
    path = await load_live_path(store, thread_id, stop=end)
    active = await load_checkpoint_in_use(store, path.checkpoint) if path.checkpoint else None
    return KnownThread(
        thread_id=thread_id,
        tip=await load_tip(store, thread_id, seed=seed, stop=end),
        active=active,
        context=await load_context(store, thread_id, stop=end),
        usage=await find_last_usage(store, path, active.checkpoint if active else None),
        erased=await load_erased(store, path, active.checkpoint if active else None, tip_of=thread_id if stop is None else None),
    )


async def load_checkpoint_in_use(store: ThreadStore, landmark: Record) -> ActiveCheckpoint:
    """Return a checkpoint whose record was read without its body."""
    checkpoint = await load_checkpoint(store, landmark)
    return ActiveCheckpoint(ordinal=landmark.ordinal, checkpoint=checkpoint, layout=read_layout(checkpoint))


async def load_context(store: ThreadStore, thread_id: str, *, stop: int) -> ThreadContext | None:
    """Return what the newest `context` record before ordinal `stop` says."""
    body = await load_context_body(store, thread_id, stop=stop)
    return None if body is None else _read_context(body)


def _read_context(body: ContextBody) -> ThreadContext:
    return ThreadContext(
        head=digest_head(body.fields, body.head),
        session=body.session,
        issuer=body.issuer,
        issued_from=body.issued_from,
        checkpoint=body.checkpoint,
        bound_from=body.bound_from,
        memory=body.memory,
        started=body.started,
        start=tuple(bytes(raw) for raw in body.start),
    )
