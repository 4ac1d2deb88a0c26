"""Commits a checkpoint to the path it was computed on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadkeep.compaction import Ledger, Outcome, remote
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.continuation import carried_memory
from threadkeep.compaction.engine import Proposal
from threadkeep.compaction.fallback import Tries, unaided
from threadkeep.compaction.order import ADOPTED, Order
from threadkeep.errors import NothingToCompact, OrdinalConflict, StaleCheckpoint
from threadkeep.items import digest_body
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, EntryKind, History, LivePath, Pointer, Tip
from threadkeep.threads.reader import load_history, load_live_path, load_records, load_tip, read_body
from threadkeep.threads.sealed_items import Recipient, find_account, find_foreign_seals
from threadkeep.threads.tombstones import read_erasure_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a compaction is made of, all of it up to one ordinal: what arrives later stands after its cut.

    Attributes:
        carried: What was remembered in the thread that this one continues; None where it remembers by itself.
        carried_from: The records that is known from, unless they were erased before.
    """

    thread_id: str
    path: LivePath
    history: History
    tip: Tip
    carried: Ledger | None = None
    carried_from: frozenset[Pointer] = frozenset()


async def look(backend: Backend, thread_id: str, *, seed: bytes) -> Basis:
    """Return a thread as a compaction finds it now; `seed` is the chain's first link."""
    store = backend.store
    end = (await store.get(thread_id)).next
    path = await load_live_path(store, thread_id, stop=end)
    history = await load_history(store, path)
    carried = await carried_memory(backend, thread_id) if history.checkpoint is None else None
    sources = _sources(carried) if carried is not None else frozenset()
    return Basis(
        thread_id=thread_id,
        path=path,
        history=history,
        tip=await load_tip(store, thread_id, seed=seed, stop=end),
        carried=carried,
        carried_from=sources - (await _erased(store, sources)).keys(),
    )


async def commit(backend: Backend, record: NewRecord, *, basis: Basis) -> int:
    """Append a checkpoint and return its ordinal. The tip may have moved; what it is made of must be as it was.

    Raises:
        StaleCheckpoint: The span left the live path, or something of it was erased.
    """
    expected = basis.tip.next
    while True:
        # Asked every time: what a fork shares, or what stands in another thread too, is erased without a word to this one.
        if await _holds_erased(backend.store, basis):
            raise StaleCheckpoint(basis.thread_id)
        try:
            return await backend.append(basis.thread_id, [record], expected=expected) - 1
        except OrdinalConflict as conflict:
            expected = conflict.actual
        if not await _is_on_path(backend.store, basis) or await _erasure_is_noted(backend.store, basis, stop=expected):
            raise StaleCheckpoint(basis.thread_id)


async def _is_on_path(store: ThreadStore, basis: Basis) -> bool:
    """Whether the checkpoint's base, and the newest record the compaction saw, are still on the live path.

    The path below a record never changes, so the newest one stands for everything before it.
    """
    history = basis.history
    checkpoint = (await load_live_path(store, basis.thread_id)).checkpoint
    path = await load_live_path(store, basis.thread_id, whole=True)
    base = checkpoint.ordinal if checkpoint else None
    seen = [entry.source for entry in history.entries if entry.source is not None]
    newest = max(seen, key=lambda source: source.ordinal, default=None)
    return base == history.checkpoint_ordinal and (newest is None or path.find_thread(newest.ordinal) == newest.thread_id)


async def _erasure_is_noted(store: ThreadStore, basis: Basis, *, stop: int) -> bool:
    """Whether an erasure of the thread began since: it is noted first, and what it planned does not know this checkpoint."""
    since = Span(thread_id=basis.thread_id, start=basis.tip.next, stop=stop)
    return any(read_erasure_note(note.body) is not None for note in await store.read(since, kinds={RecordKind.NOTE}))


async def _holds_erased(store: ThreadStore, basis: Basis) -> bool:
    """Whether anything the compaction read is erased by now. Reads no bodies.

    What the checkpoint below was made of need not be asked for: erasing any of it undoes that checkpoint.
    """
    shown = {entry.source: entry.item for entry in basis.history.entries if entry.source and entry.kind is EntryKind.KEEP}
    remarked = {remark.source for remark in basis.history.remarks}
    gone = await _erased(store, {*shown, *remarked, *basis.carried_from})
    # A placeholder, which stood there when the compaction looked, is not what was erased.
    return any(place not in shown or digest_body(shown[place].raw) == record.digest for place, record in gone.items())


async def _erased(store: ThreadStore, places: Iterable[Pointer]) -> dict[Pointer, Record]:
    """Return those of some records whose bytes are gone."""
    found = await load_records(store, places, bodies=False)
    return {place: record for place, record in found.items() if record.erased}


def _sources(ledger: Ledger) -> frozenset[Pointer]:
    claims = (entry.claim.source for entry in ledger.entries if entry.claim is not None)
    return frozenset((*(source for entry in ledger.entries for source in entry.sources), *claims))


async def adopted(backend: Backend, basis: Basis, proposal: Proposal, order: Order, tried: Tries) -> Outcome:
    """Return what a compaction comes to that the provider wrote in an answer to the order's model, for its account.

    Raises:
        NothingToCompact: It wrote none, or another did since; or a person undid what came of it.
    """
    model, written = order.model, proposal.brief.written
    issuer = find_account(model) if model is not None else None
    if model is None or issuer is None or written is None:
        raise NothingToCompact(basis.thread_id, reason="its provider compacted nothing by itself")
    reader = Recipient(model=model.name, issuer=issuer)
    foreign = await find_foreign_seals(
        reader, basis.history, store=backend.store, thread_id=basis.thread_id, dialect=proposal.brief.dialect
    )
    if written.place in foreign:
        raise NothingToCompact(basis.thread_id, reason="another account's provider compacted it since")
    if await _was_undone(backend, basis, written.place.ordinal):
        raise NothingToCompact(basis.thread_id, reason="what its provider compacted by itself was undone")
    draft = remote.adopted(written.item, issuer=issuer)
    return await unaided(draft, proposal, tried, clock=backend.clock, model=model.name)


async def _was_undone(backend: Backend, basis: Basis, written: int) -> bool:
    """Whether a checkpoint that was made of what the provider wrote at an ordinal was undone."""
    for span in basis.path.spans:
        later = Span(thread_id=span.thread_id, start=max(span.start, written), stop=max(span.stop, written))
        undone = {record.target for record in await backend.store.read(later, kinds={RecordKind.UNDO}, bodies=False)}
        for record in await backend.store.read(later, kinds={RecordKind.CHECKPOINT}) if undone else ():
            made = read_body(record, Checkpoint) if record.ordinal in undone else None
            if made is not None and made.reason == ADOPTED and made.cut > written:
                return True
    return False
