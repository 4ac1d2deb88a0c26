"""From records to what the model sees: a pure function of the newest surviving checkpoint and what came after its cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

import msgspec

from threadkeep.errors import RecordNotFound
from threadkeep.items import Item
from threadkeep.store import Record, RecordKind
from threadkeep.threads.pointer import Pointer
from threadkeep.threads.records import Checkpoint, KeepEntry, LayoutEntry, LiteralEntry, Remark, StateEntry, StubEntry
from threadkeep.tokens import estimate_item


class EntryKind(StrEnum):
    """How a position of the window relates to a record."""

    KEEP = "keep"
    STUB = "stub"
    STATE = "state"
    START = "start"
    LITERAL = "literal"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEntry:
    """One position of the window: an item, and the record it comes from unless it is the session state, what hooks said when the
    session went on from there, or a literal.

    `depth` is the link of the client's chain it stands for; `after_cut` says that no checkpoint placed it;
    `issuer` is who wrote a literal, and `sealed` says that only the issuer can read it.
    """

    kind: EntryKind
    item: Item
    tokens: int
    turn: int
    source: Pointer | None = None
    depth: int | None = None
    after_cut: bool = True
    issuer: str | None = None
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A window with where it came from, and what people remarked that its checkpoint's state does not hold yet.

    Remarks are no part of the window: they enter the state, and so the window, with the next checkpoint. Where something was
    taken out of it, `cut_from` is the first ordinal behind that: a cut before it would bring it back.
    """

    entries: tuple[WindowEntry, ...]
    checkpoint: Checkpoint | None = None
    checkpoint_ordinal: int | None = None
    remarks: tuple[Remark, ...] = ()
    cut_from: int = 0

    def readable_by(self, issuer: str | None) -> History:
        """Return the window as it may go to `issuer`: without what is sealed for another, or, if None, for anybody."""
        return replace(self, entries=tuple(e for e in self.entries if not e.sealed or e.issuer == issuer))

    def bared(self, places: Collection[Pointer], *, bare: Callable[[Item], Item | None]) -> History:
        """Return the window with what `bare` leaves of the items at these places; one of which nothing is left is not there."""
        shown = (_bared(entry, bare) if entry.source in places else entry for entry in self.entries)
        return replace(self, entries=tuple(entry for entry in shown if entry is not None))

    @property
    def said(self) -> tuple[WindowEntry, ...]:
        """What was said and done: the window without what a checkpoint and hooks wrote into it."""
        return tuple(entry for entry in self.entries if entry.kind not in (EntryKind.STATE, EntryKind.START))

    @property
    def items(self) -> list[Item]:
        return [entry.item for entry in self.entries]

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)


def assemble(
    *,
    checkpoint: Checkpoint | None,
    checkpoint_ordinal: int | None,
    kept: Mapping[Pointer, Record],
    after: Sequence[Record],
    start: Sequence[Item] = (),
) -> History:
    """Return the window: the checkpoint's layout, then every item of the path from its cut on, oldest first.

    What was erased is not there. `start` is what hooks said with this checkpoint; it stands behind the state.

    Raises:
        RecordNotFound: The layout names a record that is not among `kept`.
    """
    placed = [_placed(entry, kept) for entry in checkpoint.layout if not _is_erased(entry, kept)] if checkpoint else []
    if start:
        place = max((at for at, entry in enumerate(placed, start=1) if entry.kind is EntryKind.STATE), default=len(placed))
        placed[place:place] = [_placed_item(msgspec.Raw(item.raw), kind=EntryKind.START) for item in start]
    later = [
        WindowEntry(
            kind=EntryKind.KEEP,
            item=Item(record.body),
            tokens=record.tokens,
            turn=record.turn,
            source=Pointer(record.thread_id, record.ordinal),
            depth=record.depth,
        )
        for record in after
        if record.kind is RecordKind.ITEM and not record.erased
    ]
    return History(entries=(*placed, *later), checkpoint=checkpoint, checkpoint_ordinal=checkpoint_ordinal)


def _bared(entry: WindowEntry, bare: Callable[[Item], Item | None]) -> WindowEntry | None:
    item = bare(entry.item)
    return None if item is None else replace(entry, item=item, tokens=estimate_item(item.raw))


def _is_erased(entry: LayoutEntry, kept: Mapping[Pointer, Record]) -> bool:
    record = kept.get(Pointer(entry.thread, entry.ordinal)) if isinstance(entry, KeepEntry) else None
    return record is not None and record.erased


def _placed(entry: LayoutEntry, kept: Mapping[Pointer, Record]) -> WindowEntry:
    match entry:
        case StateEntry():
            return _placed_item(entry.item, kind=EntryKind.STATE)
        case LiteralEntry():
            source = Pointer(entry.thread, entry.ordinal) if entry.thread is not None and entry.ordinal is not None else None
            return replace(
                _placed_item(entry.item, kind=EntryKind.LITERAL), issuer=entry.issuer, source=source, sealed=entry.sealed
            )
        case StubEntry():
            item = Item(bytes(entry.item))
            return _placed_record(entry, kept, kind=EntryKind.STUB, item=item, tokens=estimate_item(item.raw))
        case KeepEntry():
            return _placed_record(entry, kept, kind=EntryKind.KEEP)
        case _:
            assert_never(entry)


def _placed_item(raw: msgspec.Raw, *, kind: EntryKind) -> WindowEntry:
    item = Item(bytes(raw))
    return WindowEntry(kind=kind, item=item, tokens=estimate_item(item.raw), turn=0, after_cut=False)


def _placed_record(
    entry: KeepEntry | StubEntry,
    kept: Mapping[Pointer, Record],
    *,
    kind: EntryKind,
    item: Item | None = None,
    tokens: int | None = None,
) -> WindowEntry:
    source = Pointer(entry.thread, entry.ordinal)
    record = kept.get(source)
    if record is None:
        raise RecordNotFound(source.thread_id, source.ordinal)
    return WindowEntry(
        kind=kind,
        item=item or Item(record.body),
        tokens=record.tokens if tokens is None else tokens,
        turn=record.turn,
        source=source,
        depth=record.depth,
        after_cut=False,
    )
