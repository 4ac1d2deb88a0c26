"""What was erased and a client still sends: something that says so goes upstream in its place.

Where a history is recognised, so is what was erased of it. A client's own copy is not the store's to erase; but nobody who asked
for it to be gone expects threadkeep to hand it on. Only what would be sent is looked for: what a checkpoint keeps, and what comes
after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from threadkeep.dialects import Dialect
from threadkeep.gateway.rewriting import Placed
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, KeepEntry
from threadkeep.threads.path import LivePath
from threadkeep.threads.tombstones import ERASED, read_note
from threadkeep.tokens import estimate_item


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What is erased of the part of a path that is still sent.

    Attributes:
        depths: Its links of the client's chain.
        bound: How many links there were when that happened: what a provider bound before is bound to what was.
        ancestors: Threads the path comes from, and where each ended: what is erased there is noted at its end.
    """

    depths: frozenset[int] = frozenset()
    bound: int = 0
    ancestors: tuple[tuple[str, int], ...] = ()


async def load_erased(store: ThreadStore, path: LivePath, checkpoint: Checkpoint | None, *, tip_of: str | None) -> Erased:
    """Return what is erased of a path. Costs what its window holds.

    `tip_of` is the thread the path is the whole of; None where the path ends before its thread does, and a fork begins there.
    """
    names = list(dict.fromkeys(span.thread_id for span in path.spans))
    ancestors = tuple([(name, (await store.get(name)).next) for name in names if name != tip_of])
    sent = [*await _kept(store, checkpoint), *await _later(store, path)]
    notes = await _notes(store, sent, names=names)
    named = {(note.thread_id, ordinal) for note in notes for ordinal in _ordinals(note)}
    # An erasure is noted before it is carried out; from then on it counts.
    gone = [record for record in sent if record.erased or (record.thread_id, record.ordinal) in named]
    depths = frozenset(record.depth for record in gone if record.depth is not None)
    bound = max((_links_at(note, sent) for note in notes), default=_links(sent)) if depths else 0
    return Erased(depths=depths, bound=bound, ancestors=ancestors)


async def unmoved(store: ThreadStore, erased: Erased, reached: Sequence[int | None]) -> Erased | None:
    """Return what is erased of a path whose ancestors have `reached` these ends meanwhile; None where it must be loaded anew."""
    if reached == [end for _, end in erased.ancestors]:
        return erased
    ancestors: list[tuple[str, int]] = []
    for (name, end), now in zip(erased.ancestors, reached, strict=True):
        if now is None:
            return None
        notes = await store.read(Span(thread_id=name, start=end, stop=now), kinds={RecordKind.NOTE}) if now > end else []
        if any(read_note(note.body) is not None for note in notes):
            return None
        ancestors.append((name, now))
    return replace(erased, ancestors=tuple(ancestors))


def without_erased(window: Sequence[Placed], erased: Erased, *, dialect: Dialect) -> list[Placed]:
    """Return a window in which something that says so stands in place of what was erased."""
    if not erased.depths:
        return list(window)
    shown: list[Placed] = []
    for placed in window:
        if placed.depth not in erased.depths:
            shown.append(placed)
        elif (item := dialect.blanked(placed.item, ERASED)) is not None:
            shown.append(replace(placed, item=item, tokens=estimate_item(item.raw), sealed=False))
    return shown


async def _kept(store: ThreadStore, checkpoint: Checkpoint | None) -> list[Record]:
    """Return the records a checkpoint keeps as they are, without their bodies."""
    wanted: dict[str, set[int]] = {}
    for entry in checkpoint.layout if checkpoint else ():
        if isinstance(entry, KeepEntry):
            wanted.setdefault(entry.thread, set()).add(entry.ordinal)
    found: list[Record] = []
    for name, ordinals in wanted.items():
        span = Span(thread_id=name, start=min(ordinals), stop=max(ordinals) + 1)
        found.extend(await store.read(span, ordinals=ordinals, bodies=False))
    return found


async def _later(store: ThreadStore, path: LivePath) -> list[Record]:
    return [record for span in path.spans for record in await store.read(span, kinds={RecordKind.ITEM}, bodies=False)]


async def _notes(store: ThreadStore, sent: Sequence[Record], *, names: Sequence[str]) -> list[Record]:
    """Return the notes of erasures in these threads.

    Where nothing is erased yet, only one that was written behind everything else can be under way.
    """
    found: list[Record] = []
    is_erased = any(record.erased for record in sent)
    for name in names:
        row = await store.get(name)
        last = max((record.ordinal for record in sent if record.thread_id == name), default=row.start)
        span = Span(thread_id=name, start=row.start if is_erased else last, stop=row.next)
        found.extend(await store.read(span, kinds={RecordKind.NOTE}))
    return [record for record in found if read_note(record.body) is not None]


def _ordinals(note: Record) -> list[int]:
    told = read_note(note.body)
    return told.ordinals if told is not None else []


def _links_at(note: Record, sent: Sequence[Record]) -> int:
    """Return how many links a path had when something on it was erased; other threads are told apart by the time."""
    before = (
        record
        for record in sent
        if (record.ordinal < note.ordinal if record.thread_id == note.thread_id else record.at_ms <= note.at_ms)
    )
    return _links(before)


def _links(records: Iterable[Record]) -> int:
    return max((record.depth for record in records if record.depth is not None), default=0)
