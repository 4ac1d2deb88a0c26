"""The newest of what people said on a path, as the oldest form of Codex's compactions kept it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.dialects.spans import object_in
from threadkeep.items import Item, ItemKind
from threadkeep.runtime.reading import live_path, load_checkpoint, load_history
from threadkeep.store import RecordKind, Span, ThreadStore
from threadkeep.thread import EntryKind, KeepEntry, LayoutEntry, LiteralEntry, LivePath, Pointer
from threadkeep.tokens import estimate_item
from threadkeep.transfer.codex_selection import Selection, message

PAGE = 64


class Placed(NamedTuple):
    """A position of a checkpoint's layout, and what it weighs."""

    entry: LayoutEntry
    tokens: int


class _Found(NamedTuple):
    item: Item
    source: Pointer | None
    depth: int | None
    tokens: int


async def newest_said(store: ThreadStore, thread_id: str, *, dialect: Dialect, stop: int) -> list[Placed]:
    """Return what a compaction of the path before `stop` keeps of people's messages, oldest first. Reads no more than that."""
    path = await live_path(store, thread_id, stop=stop)
    selection = Selection()
    kept: list[Placed] = []
    async for found in _newest_first(store, path):
        view = dialect.view(found.item)
        if selection.full:
            break
        if view.by_person and view.kind is ItemKind.MESSAGE:
            kept.append(_kept(found, selection, dialect))
    return kept[::-1]


def _kept(found: _Found, selection: Selection, dialect: Dialect) -> Placed:
    texts = _texts(found.item)
    whole = "".join(texts)
    text = selection.take(whole)
    source = found.source
    if text == whole and len(texts) == 1 and source is not None:
        return Placed(KeepEntry(thread=source.thread_id, ordinal=source.ordinal, depth=found.depth), found.tokens)
    raw = dialect.parse(message(text)).raw
    place = (source.thread_id, source.ordinal) if source else (None, None)
    return Placed(LiteralEntry(item=msgspec.Raw(raw), issuer="codex", thread=place[0], ordinal=place[1]), estimate_item(raw))


def _texts(item: Item) -> list[str]:
    """Return the texts of a message that holds nothing else worth keeping; what is no text counts as one of them."""
    content = (object_in(item.raw) or {}).get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [str(part.get("text") or "") if isinstance(part, dict) else "" for part in parts]


async def _newest_first(store: ThreadStore, path: LivePath) -> AsyncIterator[_Found]:
    checkpoint = await load_checkpoint(store, path.checkpoint) if path.checkpoint else None
    cut = checkpoint.cut if checkpoint else 0
    for span in path.spans:
        stop = span.stop
        while page := await store.read(
            Span(thread_id=span.thread_id, start=max(span.start, cut), stop=stop),
            kinds={RecordKind.ITEM},
            newest_first=True,
            limit=PAGE,
        ):
            for record in page:
                yield _Found(Item(record.body), Pointer(record.thread_id, record.ordinal), record.depth, record.tokens)
            stop = page[-1].ordinal
    if checkpoint is None:
        return
    for entry in reversed((await load_history(store, path)).entries):
        if not entry.after_cut and entry.kind not in (EntryKind.STATE, EntryKind.START):
            keeps = entry.kind is EntryKind.KEEP
            yield _Found(entry.item, entry.source if keeps else None, entry.depth, entry.tokens)
