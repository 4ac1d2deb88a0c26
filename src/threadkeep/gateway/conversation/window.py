"""What goes upstream in place of a client's history: the checkpoint's layout, then everything after its cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from threadkeep.dialects import Dialect
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.items import Item, Role
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, KeepEntry, LayoutEntry, LiteralEntry, StateEntry, StubEntry
from threadkeep.threads.path import LivePath
from threadkeep.threads.tombstones import ERASED, read_erasure_note
from threadkeep.tokens import estimate_item


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowItem:
    """One position of what goes upstream; `depth` is the link of the client's chain it stands for, None where it is ours.

    `from_checkpoint` says that a checkpoint placed it, `sealed` that a provider signed or encrypted something in it.
    """

    item: Item
    tokens: int
    depth: int | None = None
    from_checkpoint: bool = False
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a checkpoint puts in place of the first `covers` items of a history.

    Each entry is the depth of an item that is kept, or what stands there instead and who alone can read it (None: anyone). Before
    entry `start_at`, right behind the state, is the place of what hooks add to a window.
    """

    covers: int
    entries: tuple[int | tuple[WindowItem, str | None], ...]
    start_at: int = 0


def read_layout(checkpoint: Checkpoint) -> Layout:
    """Return a checkpoint's layout, read once for all the requests it will be sent in."""
    states = [at for at, entry in enumerate(checkpoint.layout, start=1) if isinstance(entry, StateEntry)]
    return Layout(covers=checkpoint.covers, entries=tuple(map(_entry, checkpoint.layout)), start_at=states[-1] if states else 0)


def build_window(history: History, layout: Layout | None, *, issuer: str, start: Sequence[WindowItem] = ()) -> list[WindowItem]:
    """Return the history to send, with what hooks added to it in its place. What was said to the gateway is left out.

    What a host said in the message of a command stays, and what it said behind it in the system's role stands behind the next
    message of the user's instead: a provider that takes such messages takes them there alone.

    Kept items are the client's own bytes of this request; only stubs, literals and the state are not. A literal that another
    account's provider wrote, and that only it can read, is left out: the state beside it says the same.
    """
    if layout is None:
        return _after(history, 0)
    window = _world(history)
    for at, entry in enumerate(layout.entries):
        if at == layout.start_at:
            window.extend(start)
        if isinstance(entry, int):
            item, glance = history.items[entry - 1], history.infos[entry - 1]
            window.append(WindowItem(item=item, tokens=glance.tokens, depth=entry, from_checkpoint=True, sealed=glance.is_sealed))
        elif entry[1] in (None, issuer):
            window.append(entry[0])
    if layout.start_at == len(layout.entries):
        window.extend(start)
    return [*window, *_after(history, layout.covers)]


def _world(history: History) -> list[WindowItem]:
    """Return what a host says of its world in the first message, where that is a command: no record of it can be kept in view."""
    first = history.infos[0].host_parts if history.infos else None
    return [] if first is None else [WindowItem(item=first, tokens=estimate_item(first.raw), depth=1, from_checkpoint=True)]


def _after(history: History, covers: int) -> list[WindowItem]:
    window: list[WindowItem] = []
    held: list[WindowItem] = []
    behind_command = _is_behind_command(history, covers)
    later = zip(history.items[covers:], history.infos[covers:], history.aside[covers:], strict=True)
    for depth, (item, glance, aside) in enumerate(later, start=covers + 1):
        behind_command = glance.command is not None or (behind_command and glance.is_host)
        if aside:
            if glance.host_parts is not None:
                tokens = estimate_item(glance.host_parts.raw)
                window.append(WindowItem(item=glance.host_parts, tokens=tokens, depth=depth))
            continue
        placed = WindowItem(item=item, tokens=glance.tokens, depth=depth, sealed=glance.is_sealed)
        if behind_command and glance.role is Role.SYSTEM:
            held.append(placed)
            continue
        window.append(placed)
        if held and glance.role is Role.USER:
            window.extend(held)
            held = []
    return [*window, *held]


def _is_behind_command(history: History, depth: int) -> bool:
    """Whether the item after the first `depth` follows a command at once, or a host's words behind one."""
    while depth and history.infos[depth - 1].is_host:
        depth -= 1
    return depth > 0 and history.infos[depth - 1].command is not None


def _entry(entry: LayoutEntry) -> int | tuple[WindowItem, str | None]:
    match entry:
        case KeepEntry():
            if entry.depth is None:
                raise AssertionError("what a gateway thread keeps came from a client, and so is a link of its chain")
            return entry.depth
        case StubEntry() | StateEntry() | LiteralEntry():
            item = Item(bytes(entry.item))
            placed = WindowItem(item=item, tokens=estimate_item(item.raw), from_checkpoint=True)
            return placed, entry.issuer if isinstance(entry, LiteralEntry) else None
        case _:
            assert_never(entry)


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


async def follow_ancestors(store: ThreadStore, erased: Erased, reached: Sequence[int | None]) -> Erased | None:
    """Return what is erased of a path whose ancestors have `reached` these ends meanwhile; None where it must be loaded anew."""
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
    """Return a window in which something that says so stands in place of what was erased."""
    if not erased.depths:
        return list(window)
    shown: list[WindowItem] = []
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
    return [record for record in found if read_erasure_note(record.body) is not None]


def _ordinals(note: Record) -> list[int]:
    context = read_erasure_note(note.body)
    return context.ordinals if context is not None else []


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
