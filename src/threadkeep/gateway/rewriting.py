"""What goes upstream in place of a client's history: the checkpoint's layout, then everything after its cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from threadkeep.gateway.glances import Seen
from threadkeep.items import Item, Role
from threadkeep.threads import Checkpoint, KeepEntry, LayoutEntry, LiteralEntry, StateEntry, StubEntry
from threadkeep.tokens import estimate_item


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One position of what goes upstream; `depth` is the link of the client's chain it stands for, None where it is ours.

    `laid_out` says that a checkpoint placed it, `sealed` that a provider signed or encrypted something in it.
    """

    item: Item
    tokens: int
    depth: int | None = None
    laid_out: bool = False
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a checkpoint puts in place of the first `covers` items of a history.

    Each entry is the depth of an item that is kept, or what stands there instead and who alone can read it (None: anyone). Before
    entry `start_at`, right behind the state, is the place of what hooks add to a window.
    """

    covers: int
    entries: tuple[int | tuple[Placed, str | None], ...]
    start_at: int = 0


def layout_of(checkpoint: Checkpoint) -> Layout:
    """Return a checkpoint's layout, read once for all the requests it will be sent in."""
    states = [at for at, entry in enumerate(checkpoint.layout, start=1) if isinstance(entry, StateEntry)]
    return Layout(covers=checkpoint.covers, entries=tuple(map(_entry, checkpoint.layout)), start_at=states[-1] if states else 0)


def window_of(seen: Seen, layout: Layout | None, *, issuer: str, start: Sequence[Placed] = ()) -> list[Placed]:
    """Return the history to send, with what hooks added to it in its place. What was said to the gateway is left out.

    What a host said in the message of a command stays, and what it said behind it in the system's role stands behind the next
    message of the user's instead: a provider that takes such messages takes them there alone.

    Kept items are the client's own bytes of this request; only stubs, literals and the state are not. A literal that another
    account's provider wrote, and that only it can read, is left out: the state beside it says the same.
    """
    if layout is None:
        return _after(seen, 0)
    window = _world(seen)
    for at, entry in enumerate(layout.entries):
        if at == layout.start_at:
            window.extend(start)
        if isinstance(entry, int):
            item, glance = seen.items[entry - 1], seen.glances[entry - 1]
            window.append(Placed(item=item, tokens=glance.tokens, depth=entry, laid_out=True, sealed=glance.is_sealed))
        elif entry[1] in (None, issuer):
            window.append(entry[0])
    if layout.start_at == len(layout.entries):
        window.extend(start)
    return [*window, *_after(seen, layout.covers)]


def _world(seen: Seen) -> list[Placed]:
    """Return what a host says of its world in the first message, where that is a command: no record of it can be kept in view."""
    first = seen.glances[0].host_parts if seen.glances else None
    return [] if first is None else [Placed(item=first, tokens=estimate_item(first.raw), depth=1, laid_out=True)]


def _after(seen: Seen, covers: int) -> list[Placed]:
    window: list[Placed] = []
    held: list[Placed] = []
    behind_command = _is_behind_command(seen, covers)
    later = zip(seen.items[covers:], seen.glances[covers:], seen.aside[covers:], strict=True)
    for depth, (item, glance, aside) in enumerate(later, start=covers + 1):
        behind_command = glance.command is not None or (behind_command and glance.is_host)
        if aside:
            if glance.host_parts is not None:
                tokens = estimate_item(glance.host_parts.raw)
                window.append(Placed(item=glance.host_parts, tokens=tokens, depth=depth))
            continue
        placed = Placed(item=item, tokens=glance.tokens, depth=depth, sealed=glance.is_sealed)
        if behind_command and glance.role is Role.SYSTEM:
            held.append(placed)
            continue
        window.append(placed)
        if held and glance.role is Role.USER:
            window.extend(held)
            held = []
    return [*window, *held]


def _is_behind_command(seen: Seen, depth: int) -> bool:
    """Whether the item after the first `depth` follows a command at once, or a host's words behind one."""
    while depth and seen.glances[depth - 1].is_host:
        depth -= 1
    return depth > 0 and seen.glances[depth - 1].command is not None


def _entry(entry: LayoutEntry) -> int | tuple[Placed, str | None]:
    match entry:
        case KeepEntry():
            if entry.depth is None:
                raise AssertionError("what a gateway thread keeps came from a client, and so is a link of its chain")
            return entry.depth
        case StubEntry() | StateEntry() | LiteralEntry():
            item = Item(bytes(entry.item))
            placed = Placed(item=item, tokens=estimate_item(item.raw), laid_out=True)
            return placed, entry.issuer if isinstance(entry, LiteralEntry) else None
        case _:
            assert_never(entry)
