"""The size of a thread's window over its life, thinned to what a plot can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import is_failed_attempt
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.pressure import find_recorded_limits
from threadkeep.threads.reader import load_live_path, read_body
from threadkeep.threads.summary import measure_checkpoint, measure_history, read_slices

# A plot is about a thousand pixels wide; more points only cost time.
MOST_POINTS = 3_000
# Each bucket shows at most four points.
BUCKETS = MOST_POINTS // 4
PLOTTED = frozenset({RecordKind.ITEM, RecordKind.CHECKPOINT, RecordKind.UNDO, RecordKind.REPLY, RecordKind.META})


@dataclass(slots=True, kw_only=True)
class SizeHistory:
    """Columns of equal length, one row a plotted record; None where a column has no figure for a record.

    Attributes:
        window: Our estimate of the window.
        counted: What the provider counted for the request.
        cached: How much of that came from the provider's cache.
        compactions: Ordinal, moment, size before and size after of each compaction.
    """

    ordinals: list[int] = field(default_factory=list)
    at_ms: list[int] = field(default_factory=list)
    window: list[int | None] = field(default_factory=list)
    counted: list[int | None] = field(default_factory=list)
    cached: list[int | None] = field(default_factory=list)
    compactions: list[tuple[int, int, int, int]] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    upto: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The size of the window after a record."""

    ordinal: int
    at_ms: int
    size: int


class _Usage(msgspec.Struct, frozen=True):
    """What a reply record says about usage; its items are not decoded."""

    input_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(slots=True, kw_only=True)
class _Walk:
    """The window's size along a path: an item adds to it, a checkpoint replaces it, an undo restores what it replaced."""

    points: list[Point] = field(default_factory=list)
    replies: list[Record] = field(default_factory=list)
    compactions: list[tuple[int, int, int, int]] = field(default_factory=list)
    has_erased_items: bool = False


async def read_size_history(tk: Threadkeep, thread: Thread) -> SizeHistory:
    """Return the size history of a thread's whole live path. Reads no item's body."""
    store = tk.backend.store
    row = await store.get(thread.id)
    walk = await _walk_path(store, thread.id, stop=row.next)
    limits = await find_recorded_limits(tk.backend, thread.id)
    history = SizeHistory(upto=row.next, compactions=walk.compactions)
    history.limits = {"soft": limits.soft, "hard": limits.hard, "full": limits.full}
    points = thin(walk.points, buckets=BUCKETS)
    if walk.has_erased_items and points:
        # Stand-ins for erased halves of calls have a size too, which only the whole window tells.
        tokens = await measure_history(store, await load_live_path(store, thread.id))
        last = points[-1]
        points[-1] = Point(ordinal=last.ordinal, at_ms=last.at_ms, size=last.size if tokens is None else tokens)
    rows: list[tuple[int, int, int | None, int | None, int | None]] = [
        *((point.ordinal, point.at_ms, point.size, None, None) for point in points),
        *await _read_usage(store, walk.replies),
    ]
    for ordinal, at_ms, window, counted, cached in sorted(rows, key=lambda each: each[0]):
        history.ordinals.append(ordinal)
        history.at_ms.append(at_ms)
        history.window.append(window)
        history.counted.append(counted)
        history.cached.append(cached)
    return history


async def _walk_path(store: ThreadStore, thread_id: str, *, stop: int) -> _Walk:
    walk = _Walk()
    # Tokens of all items so far, and the size without them before each checkpoint.
    size, added, before = 0, 0, dict[int | None, int]()
    path = await load_live_path(store, thread_id, stop=stop, whole=True)
    for span in reversed(path.spans):
        async for records in read_slices(store, span, kinds=PLOTTED):
            for record in records:
                if record.kind is RecordKind.META:
                    size = 0 if is_rewrite_mark(record) else size
                    continue
                if record.kind is RecordKind.REPLY:
                    walk.replies += [] if is_failed_attempt(record) else [record]
                    continue
                if record.kind is RecordKind.ITEM:
                    walk.has_erased_items = walk.has_erased_items or record.erased
                    tokens = 0 if record.erased else record.tokens
                    size, added = size + tokens, added + tokens
                elif record.kind is RecordKind.CHECKPOINT:
                    after = await measure_checkpoint(store, record)
                    before[record.ordinal] = size - added
                    walk.compactions.append((record.ordinal, record.at_ms, size, after))
                    size = after
                else:
                    size = before.get(record.target, size - added) + added
                walk.points.append(Point(ordinal=record.ordinal, at_ms=record.at_ms, size=size))
    return walk


async def _read_usage(store: ThreadStore, replies: Sequence[Record]) -> list[tuple[int, int, None, int, int]]:
    """Return what providers counted, from an even choice of replies: their bodies hold whole answers."""
    chosen = replies[:: len(replies) // BUCKETS + 1]
    rows: list[tuple[int, int, None, int, int]] = []
    for thread_id in dict.fromkeys(record.thread_id for record in chosen):
        ordinals = [record.ordinal for record in chosen if record.thread_id == thread_id]
        span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
        for record in await store.read(span, ordinals=ordinals):
            usage = read_body(record, _Usage)
            if usage is not None and usage.input_tokens:
                rows.append((record.ordinal, record.at_ms, None, usage.input_tokens, usage.cached_tokens or 0))
    return rows


def thin(points: Sequence[Point], *, buckets: int) -> list[Point]:
    """Return fewer points of a curve with its shape kept: of neighbours, the first, the last, the lowest and the highest."""
    width = -(-len(points) // buckets)
    shown: list[Point] = []
    for start in range(0, len(points), max(1, width)):
        bucket = points[start : start + width]
        lowest, highest = min(bucket, key=lambda point: point.size), max(bucket, key=lambda point: point.size)
        kept = {point.ordinal: point for point in (bucket[0], lowest, highest, bucket[-1])}
        shown.extend(kept[ordinal] for ordinal in sorted(kept))
    return shown


def draw_bars(heights: Sequence[int], *, top: int, rows: int, blocks: str = " ▁▂▃▄▅▆▇█") -> list[str]:
    """Return bars of these heights as text, the highest row first; `blocks` are its marks from empty to full."""
    full = len(blocks) - 1
    steps = [-(-height * rows * full // top) if top else 0 for height in heights]
    return ["".join(blocks[min(full, max(0, step - row * full))] for step in steps) for row in reversed(range(rows))]
