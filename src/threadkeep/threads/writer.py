"""Writes threads: create, append items, update metadata; and finds the records of a known history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.items import Item, link_chain, seed_chain
from threadkeep.store import Found, NewRecord, NewThread, RecordKind, ThreadRow, ThreadStore
from threadkeep.threads import Arrival, MetaBody, Tip, check_thread_id, encode_body, make_records
from threadkeep.threads.backend import Redact, ThreadBackend, new_thread_id
from threadkeep.threads.reader import load_current_turn, load_metadata
from threadkeep.threads.records import Body
from threadkeep.tokens import estimate_item

# The newest few digests answer nearly every lookup; each further one reaches eight times as far back.
FIRST_QUESTION = 8
GALLOP = 8

Accept = Callable[[Found], Awaitable[bool]]
# Records for more than this are made in a thread: an item takes about 20 µs, a megabyte 2 ms.
MANY_ITEMS = 256
MANY_BYTES = 1024 * 1024


def make_arrival(dialect: Dialect, item: Item, *, aside: bool = False, redact: Redact | None = None) -> Arrival:
    """Prepare an item for recording.

    Its chain link covers the received bytes; `redact` decides which bytes are written.
    """
    written = Item(redact(item.raw)) if redact else item
    return Arrival(
        item=written,
        view=dialect.view(written),
        canonical=dialect.canonical(item),
        tokens=estimate_item(written.raw),
        aside=aside,
        redacted=written != item,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStart:
    """A thread to be created together with its first items; see `append_items`."""

    thread: NewThread
    meta: NewRecord

    def tip(self, before: Tip) -> Tip:
        """Return the thread's tip once it is created; `before` is the tip of the thread it continues."""
        return replace(before, next=self.thread.start + 1, turn=self.meta.turn)


def prepare_thread(backend: ThreadBackend, dialect: Dialect, *, thread_id: str | None = None, agent: str = "") -> ThreadStart:
    """Return a new, empty thread, not created yet.

    Raises:
        InvalidThreadId: `thread_id` cannot name a thread.
    """
    now = backend.clock.now_ms()
    name = new_thread_id(now) if thread_id is None else check_thread_id(thread_id)
    body = encode_body(MetaBody(dialect=dialect.name, agent=agent))
    meta = NewRecord(kind=RecordKind.META, at_ms=now, turn=0, tokens=0, body=body)
    return ThreadStart(thread=NewThread(id=name, dialect=dialect.name, created_at_ms=now), meta=meta)


async def create_thread(backend: ThreadBackend, dialect: Dialect, *, thread_id: str | None = None, agent: str = "") -> str:
    """Create an empty thread and return its id.

    Raises:
        InvalidThreadId: `thread_id` cannot name a thread.
        ThreadExists: One of that name is there.
    """
    begun = prepare_thread(backend, dialect, thread_id=thread_id, agent=agent)
    await backend.create(begun.thread, [begun.meta])
    return begun.thread.id


async def append_items(
    backend: ThreadBackend,
    thread_id: str,
    arrivals: Sequence[Arrival],
    *,
    tip: Tip,
    model: str | None = None,
    issuer: str | None = None,
    before: Sequence[NewRecord] = (),
    begun: ThreadStart | None = None,
) -> Tip:
    """Append `before`, then `arrivals`, as one unit and return the tip after them. Durable when it returns.

    With `begun`, the unit also creates the thread: a crash never leaves an empty one.

    Raises:
        OrdinalConflict: Another writer appended since `tip` was read.
    """
    key, now = backend.store.tenant.key, backend.clock.now_ms()
    make = partial(make_records, tip, arrivals, key=key, at_ms=now, model=model, issuer=issuer)
    takes_long = len(arrivals) > MANY_ITEMS or sum(len(each.canonical) for each in arrivals) > MANY_BYTES
    records, after = await asyncio.to_thread(make) if takes_long else make()
    records = [*before, *records]
    if begun is not None:
        reached = await backend.create(begun.thread, [begun.meta, *records])
    else:
        reached = await backend.append(thread_id, records, expected=tip.next)
    return Tip(next=reached, turn=after.turn, depth=after.depth, chain=after.chain)


async def append_beside(
    backend: ThreadBackend, thread_id: str, kind: RecordKind, body: bytes, *, tokens: int = 0, target: int | None = None
) -> int:
    """Append a record of the current turn outside the history and return its ordinal. Durable when it returns."""
    row = await backend.store.get(thread_id)
    turn = await load_current_turn(backend.store, row, stop=row.next)
    record = NewRecord(kind=kind, at_ms=backend.clock.now_ms(), turn=turn, tokens=tokens, body=body, target=target)
    return await backend.append_beside(thread_id, record, expected=row.next) - 1


async def append_mark(
    backend: ThreadBackend, row: ThreadRow, kind: RecordKind, body: Body, *, turn: int, target: int | None = None
) -> None:
    """Append a record that changes what a thread is, unless another writer appended since `row` was read.

    Raises:
        OrdinalConflict: One did.
    """
    record = NewRecord(kind=kind, at_ms=backend.clock.now_ms(), turn=turn, tokens=0, body=encode_body(body), target=target)
    await backend.append(row.id, [record], expected=row.next)


def compute_chain(backend: ThreadBackend, dialect: Dialect, items: Sequence[Item], *, agent: str = "") -> list[bytes]:
    """Return the chain over `items`, one digest per item."""
    key = backend.store.tenant.key
    link = seed_chain(key, dialect=dialect.name, agent=agent)
    chain: list[bytes] = []
    for item in items:
        link = link_chain(key, link, dialect.canonical(item))
        chain.append(link)
    return chain


async def find_deepest(store: ThreadStore, chain: Sequence[bytes], *, accept: Accept | None = None) -> list[Found]:
    """Return the accepted records with the longest prefix of `chain` that any thread has, newest first; empty if none has."""
    stop, reach = len(chain), FIRST_QUESTION
    while stop > 0:
        start = max(0, stop - reach)
        asked = chain[start:stop]
        found = [match for match in await store.lookup(asked) if accept is None or await accept(match)]
        if found:
            known: Mapping[bytes, int] = {digest: index for index, digest in enumerate(asked)}
            deepest = max(known[match.chain] for match in found)
            return [match for match in found if known[match.chain] == deepest]
        stop, reach = start, reach * GALLOP
    return []


async def make_rewrite_mark(backend: ThreadBackend, thread_id: str, *, at: int, turn: int) -> NewRecord:
    """Return the record that begins a thread's chain anew, because its client rewrote its history; to be appended at `at`."""
    body = encode_body(await load_metadata(backend.store, thread_id))
    return NewRecord(kind=RecordKind.META, at_ms=backend.clock.now_ms(), turn=turn, tokens=0, body=body, target=at)


async def update_metadata(
    backend: ThreadBackend,
    thread_id: str,
    *,
    title: str | None = None,
    archived: bool | None = None,
    memory: str | None = None,
) -> None:
    """Record what changed in a thread's metadata; None leaves a field as it is.

    Raises:
        OrdinalConflict: Another writer appended meanwhile.
    """
    known = await load_metadata(backend.store, thread_id)
    changed = msgspec.structs.replace(
        known,
        title=known.title if title is None else title,
        archived=known.archived if archived is None else archived,
        memory=known.memory if memory is None else memory,
    )
    if changed == known:
        return
    row = await backend.store.get(thread_id)
    turn = await load_current_turn(backend.store, row, stop=row.next)
    await append_mark(backend, row, RecordKind.META, changed, turn=turn)
