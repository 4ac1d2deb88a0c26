"""The size of a thread's window over its life, thinned to what a plot can show.

A page that follows an agent asks again with every record. So a life is kept, and lived on from where it was left: what is asked
again costs what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from holdfast.runtime import Holdfast, Thread
from holdfast.runtime.reading import live_path
from holdfast.store import Record, RecordKind, Span, ThreadStore
from holdfast.thread import decode_body
from holdfast.viewer.sizes import size_after, slices

# A plot is some hundred pixels wide; more points than this only cost time.
MOST_POINTS = 1_500
PLOTTED = frozenset({RecordKind.ITEM, RecordKind.CHECKPOINT, RecordKind.UNDO})
# Lives that are kept; each holds some thousand points.
MOST_LIVES = 32


@dataclass(slots=True, kw_only=True)
class Series:
    """Columns of one length: at which record and when, what the window held by our estimate, what the provider counted, and how
    much of that came from its cache; None where a column says nothing. `compactions` are ordinals with sizes before and after.
    """

    ordinals: list[int] = field(default_factory=list)
    at_ms: list[int] = field(default_factory=list)
    window: list[int | None] = field(default_factory=list)
    counted: list[int | None] = field(default_factory=list)
    cached: list[int | None] = field(default_factory=list)
    compactions: list[tuple[int, int, int, int]] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    upto: int = 0


class _Counted(msgspec.Struct, frozen=True):
    """What a reply record says about usage; its items are passed over."""

    input_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A point of the plot; a `steep` one stands where the line falls, and is never left out."""

    ordinal: int
    at_ms: int
    window: int | None = None
    counted: int | None = None
    cached: int | None = None
    steep: bool = False


class _Life:
    """The window's size, record by record: items add to it, a compaction replaces it, an undo brings back what it replaced.

    `spans` is the path it was lived along, oldest first.
    """

    def __init__(self) -> None:
        self.points: list[_Point] = []
        self.usage: list[_Point] = []
        self.compactions: list[tuple[int, int, int, int]] = []
        self.spans: tuple[Span, ...] = ()
        self._size = 0
        self._added = 0
        self._without: dict[int, int] = {}

    def ahead(self, spans: tuple[Span, ...]) -> tuple[Span, ...] | None:
        """Return what of a path is still to be lived; None where it is not this one, gone on."""
        if not self.spans:
            return spans
        *past, last = self.spans
        at = len(past)
        if len(spans) <= at or list(spans[:at]) != past:
            return None
        now = spans[at]
        if (now.thread_id, now.start) != (last.thread_id, last.start) or now.stop < last.stop:
            return None
        return (replace(now, start=last.stop), *spans[at + 1 :])

    def live_through(self, records: Sequence[Record], *, sizes: Mapping[int, int]) -> None:
        """Go on; `sizes` are those of windows after compactions whose records do not say."""
        for record in records:
            steep = False
            if record.kind is RecordKind.ITEM:
                self._size += record.tokens
                self._added += record.tokens
            elif record.kind is RecordKind.CHECKPOINT:
                after = sizes.get(record.ordinal, record.tokens)
                self._without[record.ordinal] = self._size - self._added
                self.compactions.append((record.ordinal, record.at_ms, self._size, after))
                self.points[-1:] = [replace(point, steep=True) for point in self.points[-1:]]
                self._size, steep = after, True
            elif record.target in self._without:
                self._size, steep = self._without[record.target] + self._added, True
            self.points.append(_Point(ordinal=record.ordinal, at_ms=record.at_ms, window=self._size, steep=steep))
        self.points = _thinned(self.points, most=4 * MOST_POINTS)

    def learn(self, usage: Sequence[_Point]) -> None:
        """Take in what providers counted since."""
        self.usage = _thinned([*self.usage, *usage], most=4 * MOST_POINTS)


class Lives:
    """The series of threads, those looked at lately kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Life] = OrderedDict()

    async def series_of(self, hf: Holdfast, thread: Thread) -> Series:
        """Return the series of a thread's whole live path. Reads no item's body, and nothing it has read before."""
        store = hf.backend.store
        row = await store.get(thread.id)
        life = await self._lived(store, thread.id, stop=row.next)
        limits = hf.backend.limits_for(await thread.last_model())
        made = Series(upto=row.next, compactions=list(life.compactions))
        made.limits = {"soft": limits.soft, "hard": limits.hard, "full": limits.full}
        points = (*_thinned(life.points, most=MOST_POINTS), *_thinned(life.usage, most=MOST_POINTS))
        for point in sorted(points, key=lambda each: each.ordinal):
            made.ordinals.append(point.ordinal)
            made.at_ms.append(point.at_ms)
            made.window.append(point.window)
            made.counted.append(point.counted)
            made.cached.append(point.cached)
        return made

    async def _lived(self, store: ThreadStore, thread_id: str, *, stop: int) -> _Life:
        """Return a thread's life up to a record. It is taken out meanwhile: of two that ask at once, one lives it anew."""
        key = (store.tenant.name, thread_id)
        life = self._known.pop(key, None) or _Life()
        path = await live_path(store, thread_id, stop=stop, whole=True)
        spans = tuple(reversed(path.spans))
        ahead = life.ahead(spans)
        if ahead is None:
            life, ahead = _Life(), spans
        for span in ahead:
            async for records in slices(store, span, kinds=PLOTTED):
                unsized = [record for record in records if record.kind is RecordKind.CHECKPOINT and not record.tokens]
                life.live_through(records, sizes={record.ordinal: await size_after(store, record) for record in unsized})
            life.learn(await _usage(store, span))
        life.spans = spans
        self._known[key] = life
        while len(self._known) > MOST_LIVES:
            self._known.popitem(last=False)
        return life


def _thinned(points: list[_Point], *, most: int) -> list[_Point]:
    """Return about `most` points at most, evenly taken, with those where the line falls."""
    step = -(-len(points) // most)
    last = len(points) - 1
    return points if step <= 1 else [point for at, point in enumerate(points) if at % step == 0 or at == last or point.steep]


async def _usage(store: ThreadStore, span: Span) -> list[_Point]:
    """Return what providers counted, from an even choice of replies: their bodies hold whole answers."""
    replies = await store.read(span, kinds={RecordKind.REPLY}, bodies=False)
    step = max(1, len(replies) // MOST_POINTS)
    chosen = [record.ordinal for record in replies[::step]]
    points: list[_Point] = []
    for record in await store.read(span, ordinals=chosen) if chosen else ():
        try:
            counted = decode_body(record.body, _Counted)
        except msgspec.MsgspecError:
            continue
        if counted.input_tokens:
            cached = counted.cached_tokens or 0
            points.append(_Point(ordinal=record.ordinal, at_ms=record.at_ms, counted=counted.input_tokens, cached=cached))
    return points
