"""The window that is sent in place of a client's history: the checkpoint's layout, then everything after its cut.

Items that were erased from the store, and that the client still sends, are replaced by a short text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from threadkeep.dialects import Dialect
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.items import Item, Role
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, KeepEntry, LayoutEntry, LiteralEntry, StateEntry, StubEntry
from threadkeep.threads.erasure_notes import ERASED, read_erasure_note
from threadkeep.threads.path import LivePath
from threadkeep.tokens import estimate_item


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowItem:
    """One item of a window.

    Attributes:
        depth: The link of the client's chain that it stands for; None where the item is ours.
        from_checkpoint: Whether a checkpoint's layout placed it.
        sealed: Whether a provider signed or encrypted something in it.
    """

    item: Item
    tokens: int
    depth: int | None = None
    from_checkpoint: bool = False
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of a checkpoint, which replaces the first `covers` items of a history.

    An entry is the depth of a kept item, or an item of the checkpoint with the only issuer that can read it (None: anyone).
    Items that hooks add stand before entry `start_at`, right behind the state.
    """

    covers: int
    entries: tuple[int | tuple[WindowItem, str | None], ...]
    start_at: int = 0


def read_layout(checkpoint: Checkpoint) -> Layout:
    """Return a checkpoint's layout, read once for all its requests."""
    states = [at for at, entry in enumerate(checkpoint.layout, start=1) if isinstance(entry, StateEntry)]
    return Layout(
        covers=checkpoint.covers, entries=tuple(map(_read_entry, checkpoint.layout)), start_at=states[-1] if states else 0
    )


def build_window(history: History, layout: Layout | None, *, issuer: str, start: Sequence[WindowItem] = ()) -> list[WindowItem]:
    """Return the window to send, with the items that hooks added (`start`), and without commands and their answers.

    A host's own parts of a command's message stay. Its system messages behind a command move behind the next user message,
    because providers accept them only there.

    Kept items have the bytes of this request; stubs, literals and the state are ours. A literal that only another account can
    read is left out: the state beside it says the same.
    """
    if layout is None:
        return _list_later(history, 0)
    window = _find_first_host_parts(history) if layout.covers else []
    for at, entry in enumerate(layout.entries):
        if at == layout.start_at:
            window.extend(start)
        if isinstance(entry, int):
            item, info = history.items[entry - 1], history.infos[entry - 1]
            window.append(WindowItem(item=item, tokens=info.tokens, depth=entry, from_checkpoint=True, sealed=info.is_sealed))
        elif entry[1] in (None, issuer):
            window.append(entry[0])
    if layout.start_at == len(layout.entries):
        window.extend(start)
    return [*window, *_list_later(history, layout.covers)]


def _find_first_host_parts(history: History) -> list[WindowItem]:
    """Return the host's parts of the first message where that is a command: they are in no record that a layout could keep."""
    first = history.infos[0].host_parts if history.infos else None
    return [] if first is None else [WindowItem(item=first, tokens=estimate_item(first.raw), depth=1, from_checkpoint=True)]


def _list_later(history: History, covers: int) -> list[WindowItem]:
    window: list[WindowItem] = []
    held: list[WindowItem] = []
    behind_command = _is_behind_command(history, covers)
    later = zip(history.items[covers:], history.infos[covers:], history.aside[covers:], strict=True)
    for depth, (item, info, aside) in enumerate(later, start=covers + 1):
        behind_command = info.command is not None or (behind_command and info.is_host)
        if aside:
            if info.host_parts is not None:
                tokens = estimate_item(info.host_parts.raw)
                window.append(WindowItem(item=info.host_parts, tokens=tokens, depth=depth))
            continue
        placed = WindowItem(item=item, tokens=info.tokens, depth=depth, sealed=info.is_sealed)
        if behind_command and info.role is Role.SYSTEM:
            held.append(placed)
            continue
        window.append(placed)
        if held and info.role is Role.USER:
            window.extend(held)
            held = []
    return [*window, *held]


def _is_behind_command(history: History, depth: int) -> bool:
    """Whether the item after the first `depth` follows a command, with at most host messages between."""
    while depth and history.infos[depth - 1].is_host:
        depth -= 1
    return depth > 0 and history.infos[depth - 1].command is not None


def _read_entry(entry: LayoutEntry) -> int | tuple[WindowItem, str | None]:
    match entry:
        case KeepEntry():
            if entry.depth is None:
                raise AssertionError("a kept item of a gateway thread came from its client, and is a link of the chain")
            return entry.depth
        case StubEntry() | StateEntry() | LiteralEntry():
            item = Item(bytes(entry.item))
            placed = WindowItem(item=item, tokens=estimate_item(item.raw), from_checkpoint=True)
            return placed, entry.issuer if isinstance(entry, LiteralEntry) else None
        case _:
            assert_never(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """The erased items among those of a path that are still sent.

    Attributes:
        depths: Their links of the client's chain.
        bound: How many links there were when they were erased: thinking up to there is bound to the erased items.
        ancestors: The threads that the path comes from, and where each ended; their erasures are noted at their ends.
    """

    depths: frozenset[int] = frozenset()
    bound: int = 0
    ancestors: tuple[tuple[str, int], ...] = ()


async def load_erased(store: ThreadStore, path: LivePath, checkpoint: Checkpoint | None, *, tip_of: str | None) -> Erased:
    """Return what is erased of a path, at the cost of what its window holds.

    `tip_of` is the thread whose whole path it is; None where the path ends earlier, because a fork begins there.
    """
    names = list(dict.fromkeys(span.thread_id for span in path.spans))
    ancestors = tuple([(name, (await store.get(name)).next) for name in names if name != tip_of])
    sent = [*await _load_kept(store, checkpoint), *await _load_later(store, path)]
    notes = await _load_notes(store, sent, names=names)
    named = {(note.thread_id, ordinal) for note in notes for ordinal in _read_ordinals(note)}
    # An erasure is noted before it is carried out; from then on it counts.
    gone = [record for record in sent if record.erased or (record.thread_id, record.ordinal) in named]
    depths = frozenset(record.depth for record in gone if record.depth is not None)
    bound = max((_count_links_at(note, sent) for note in notes), default=_count_links(sent)) if depths else 0
    return Erased(depths=depths, bound=bound, ancestors=ancestors)


async def follow_ancestors(store: ThreadStore, erased: Erased, reached: Sequence[int | None]) -> Erased | None:
    """Return what is erased of a path whose ancestors now end at `reached`; None where it must be loaded again."""
    if reached == [end for _, end in erased.ancestors]:
        return erased
    ancestors: list[tuple[str, int]] = []
    for (name, end), now in zip(erased.ancestors, reached, strict=True):
        if now is None:
            return None
        notes = await store.read(Span(thread_id=name, start=end, stop=now), kinds={RecordKind.NOTE}) if now > end else []
        if any(read_erasure_note(note.body) is not None for note in notes):
            return None
        ancestors.append((name, now))
    return replace(erased, ancestors=tuple(ancestors))


def replace_erased(window: Sequence[WindowItem], erased: Erased, *, dialect: Dialect) -> list[WindowItem]:
    """Return a window with a short text in place of each erased item."""
    if not erased.depths:
        return list(window)
    shown: list[WindowItem] = []
    for placed in window:
        if placed.depth not in erased.depths:
            shown.append(placed)
        elif (item := dialect.blank_item(placed.item, ERASED)) is not None:
            shown.append(replace(placed, item=item, tokens=estimate_item(item.raw), sealed=False))
    return shown


async def _load_kept(store: ThreadStore, checkpoint: Checkpoint | None) -> list[Record]:
    """Return the records that a checkpoint keeps, without their bodies."""
    wanted: dict[str, set[int]] = {}
    for entry in checkpoint.layout if checkpoint else ():
        if isinstance(entry, KeepEntry):
            wanted.setdefault(entry.thread, set()).add(entry.ordinal)
    found: list[Record] = []
    for name, ordinals in wanted.items():
        span = Span(thread_id=name, start=min(ordinals), stop=max(ordinals) + 1)
        found.extend(await store.read(span, ordinals=ordinals, bodies=False))
    return found


async def _load_later(store: ThreadStore, path: LivePath) -> list[Record]:
    return [record for span in path.spans for record in await store.read(span, kinds={RecordKind.ITEM}, bodies=False)]


async def _load_notes(store: ThreadStore, sent: Sequence[Record], *, names: Sequence[str]) -> list[Record]:
    """Return the notes of erasures in these threads.

    Where nothing is erased yet, only an erasure noted behind all these records can be under way.
    """
    found: list[Record] = []
    is_erased = any(record.erased for record in sent)
    for name in names:
        row = await store.get(name)
        last = max((record.ordinal for record in sent if record.thread_id == name), default=row.start)
        span = Span(thread_id=name, start=row.start if is_erased else last, stop=row.next)
        found.extend(await store.read(span, kinds={RecordKind.NOTE}))
    return [record for record in found if read_erasure_note(record.body) is not None]


def _read_ordinals(note: Record) -> list[int]:
    erasure = read_erasure_note(note.body)
    return erasure.ordinals if erasure is not None else []


def _count_links_at(note: Record, sent: Sequence[Record]) -> int:
    """Return how many links a path had when an item was erased; records of other threads are compared by time."""
    before = (
        record
        for record in sent
        if (record.ordinal < note.ordinal if record.thread_id == note.thread_id else record.at_ms <= note.at_ms)
    )
    return _count_links(before)


def _count_links(records: Iterable[Record]) -> int:
    return max((record.depth for record in records if record.depth is not None), default=0)
