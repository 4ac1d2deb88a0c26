"""What goes upstream in place of a client's history: the checkpoint's layout, then everything after its cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from holdfast.gateway.placing import Place
from holdfast.items import Item
from holdfast.runtime.backend import Backend
from holdfast.runtime.reading import live_path, load_checkpoint
from holdfast.thread import Checkpoint, KeepEntry, LayoutEntry, StateEntry, StubEntry


async def window_items(
    backend: Backend, items: Sequence[Item], *, aside: Sequence[bool], place: Place | None
) -> list[Item] | None:
    """Return the history to send in place of `items`, or None where they can go as they are.

    Kept items are the client's own bytes of this request; only stubs and the state are ours.
    """
    path = await live_path(backend.store, place.thread_id, stop=place.stop) if place else None
    checkpoint = await load_checkpoint(backend.store, path.checkpoint) if path and path.checkpoint else None
    if checkpoint is None:
        return [item for item, said in zip(items, aside, strict=True) if not said] if any(aside) else None
    return _compacted(items, checkpoint, aside=aside)


def _compacted(items: Sequence[Item], checkpoint: Checkpoint, *, aside: Sequence[bool]) -> list[Item]:
    after = zip(items[checkpoint.covers :], aside[checkpoint.covers :], strict=True)
    return [*(_placed(entry, items) for entry in checkpoint.layout), *(item for item, said in after if not said)]


def _placed(entry: LayoutEntry, items: Sequence[Item]) -> Item:
    match entry:
        case KeepEntry():
            if entry.depth is None:
                raise AssertionError("what a gateway thread keeps came from a client, and so is a link of its chain")
            return items[entry.depth - 1]
        case StubEntry() | StateEntry():
            return Item(bytes(entry.item))
        case _:
            assert_never(entry)
