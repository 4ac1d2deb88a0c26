"""Making a checkpoint of what a provider compacted by itself in an answer: nobody is asked for anything."""

from __future__ import annotations

from threadkeep.compaction import Outcome, remote
from threadkeep.compaction.engine import Proposal
from threadkeep.errors import NothingToCompact
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.committing import Basis
from threadkeep.runtime.drafting import Tries, unaided
from threadkeep.runtime.orders import ADOPTED, Order
from threadkeep.runtime.reading import readable
from threadkeep.runtime.sealing import Reader, account_of, foreign_seals
from threadkeep.store import RecordKind, Span
from threadkeep.thread import Checkpoint


async def adopted(backend: Backend, basis: Basis, proposal: Proposal, order: Order, tried: Tries) -> Outcome:
    """Return what a compaction comes to that the provider wrote in an answer to the order's model, for its account.

    Raises:
        NothingToCompact: It wrote none, or another did since; or a person undid what came of it.
    """
    model, written = order.model, proposal.brief.written
    issuer = account_of(model) if model is not None else None
    if model is None or issuer is None or written is None:
        raise NothingToCompact(basis.thread_id, reason="its provider compacted nothing by itself")
    reader = Reader(model=model.name, issuer=issuer)
    foreign = await foreign_seals(
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
            made = readable(record, Checkpoint) if record.ordinal in undone else None
            if made is not None and made.reason == ADOPTED and made.cut > written:
                return True
    return False
