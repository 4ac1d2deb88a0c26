"""The size of a thread's window over its life, thinned to what a plot can show.

A page that follows an agent asks again with every record. So a life is kept, and lived on from where it was left: what is asked
again costs what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import RecordNotFound, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import is_failed_attempt
from threadkeep.threads.reader import load_history, load_live_path, read_body
from threadkeep.viewer.window_sizes import Sighting, sighted, size_after, slices

# A plot is about a thousand pixels wide; more points than this only cost time.
MOST_POINTS = 3_000
# Of each bucket at most four points are shown.
BUCKETS = MOST_POINTS // 4
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

    def add(self, moment: _Moment) -> None:
        """Add a row to every column."""
        self.ordinals.append(moment.ordinal)
        self.at_ms.append(moment.at_ms)
        self.window.append(moment.window)
        self.counted.append(moment.counted)
        self.cached.append(moment.cached)


class _Counted(msgspec.Struct, frozen=True):
    """What a reply record says about usage; its items are passed over."""

    input_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A row of the series."""

    ordinal: int
    at_ms: int
    window: int | None = None
    counted: int | None = None
    cached: int | None = None


class _Life:
    """The window's size, record by record: items add to it, a compaction replaces it, an undo brings back what it replaced.

    `spans` is the path it was lived along, oldest first, `seen` what was known of erasures then. What was erased has no size.
    """

    def __init__(self) -> None:
        self.compactions: list[tuple[int, int, int, int]] = []
        self.spans: tuple[Span, ...] = ()
        self.seen: Sighting | None = None
        self.lost_items = False
        self._sizes: Buckets[int] = Buckets(BUCKETS)
        self._replies: Buckets[Record] = Buckets(BUCKETS)
        self._usage: dict[int, _Moment] = {}
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
            if record.kind is RecordKind.ITEM:
                self.lost_items = self.lost_items or record.erased
                self._size += 0 if record.erased else record.tokens
                self._added += 0 if record.erased else record.tokens
            elif record.kind is RecordKind.CHECKPOINT:
                after = sizes.get(record.ordinal, record.tokens)
                self._without[record.ordinal] = self._size - self._added
                self.compactions.append((record.ordinal, record.at_ms, self._size, after))
                self._size = after
            elif record.target in self._without:
                self._size = self._without[record.target] + self._added
            self._sizes.add(Point(at=record.ordinal, height=self._size, value=record.at_ms))

    def hear(self, replies: Sequence[Record]) -> list[Record]:
        """Take in replies, read without their bodies, and return those of them whose bodies are still to be read."""
        for record in replies:
            self._replies.add(Point(at=record.ordinal, height=0, value=record))
        chosen = [point.value for point in self._replies.firsts()]
        self._usage = {record.ordinal: self._usage[record.ordinal] for record in chosen if record.ordinal in self._usage}
        return [record for record in chosen if record.ordinal not in self._usage]

    def learn(self, reply: Record) -> None:
        """Take in what a provider counted, from a reply with its body."""
        said = read_body(reply, _Counted)
        moment = _Moment(ordinal=reply.ordinal, at_ms=reply.at_ms)
        if said is not None and said.input_tokens:
            moment = replace(moment, counted=said.input_tokens, cached=said.cached_tokens or 0)
        self._usage[reply.ordinal] = moment

    def moments(self) -> Iterator[_Moment]:
        """Yield what is known, in order."""
        sizes = (_Moment(ordinal=point.at, at_ms=point.value, window=point.height) for point in self._sizes.points())
        usage = (moment for moment in self._usage.values() if moment.counted)
        yield from sorted((*sizes, *usage), key=lambda moment: moment.ordinal)


class Lives:
    """The series of threads, those looked at lately kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Life] = OrderedDict()

    async def series_of(self, tk: Threadkeep, thread: Thread) -> Series:
        """Return the series of a thread's whole live path. Reads no item's body, and nothing it has read before."""
        store = tk.backend.store
        row = await store.get(thread.id)
        life = await self._lived(store, thread.id, stop=row.next)
        limits = tk.backend.find_limits(await thread.last_model())
        made = Series(upto=row.next, compactions=list(life.compactions))
        made.limits = {"soft": limits.soft, "hard": limits.hard, "full": limits.full}
        for moment in life.moments():
            made.add(moment)
        if life.lost_items:
            await _end_as_it_is(store, thread.id, made)
        return made

    async def _lived(self, store: ThreadStore, thread_id: str, *, stop: int) -> _Life:
        """Return a thread's life up to a record. It is taken out meanwhile: of two that ask at once, one lives it anew."""
        key = (store.tenant.name, thread_id)
        life = self._known.pop(key, None) or _Life()
        path = await load_live_path(store, thread_id, stop=stop, whole=True)
        spans = tuple(reversed(path.spans))
        seen = await sighted(store, dict.fromkeys(span.thread_id for span in spans), before=life.seen)
        ahead = None if seen.erased else life.ahead(spans)
        if ahead is None:
            life, ahead = _Life(), spans
        for span in ahead:
            async for records in slices(store, span, kinds=PLOTTED):
                unsized = [record for record in records if record.kind is RecordKind.CHECKPOINT and not record.tokens]
                life.live_through(records, sizes={record.ordinal: await size_after(store, record) for record in unsized})
            await _listen(store, life, span)
        life.spans, life.seen = spans, seen
        self._known[key] = life
        while len(self._known) > MOST_LIVES:
            self._known.popitem(last=False)
        return life


async def _listen(store: ThreadStore, life: _Life, span: Span) -> None:
    """Let a life hear the replies of a span. Their bodies hold whole answers, so only an even choice of them is read."""
    replies = await store.read(span, kinds={RecordKind.REPLY}, bodies=False)
    unread = {record.ordinal for record in life.hear([record for record in replies if not is_failed_attempt(record)])}
    for record in await store.read(span, ordinals=unread) if unread else ():
        life.learn(record)


async def _end_as_it_is(store: ThreadStore, thread_id: str, series: Series) -> None:
    """Let the curve end at the window's real size: what stands in for an erased half of a call has one too."""
    try:
        tokens = (await load_history(store, await load_live_path(store, thread_id))).tokens
    except (StoreCorrupt, RecordNotFound):
        return
    for at in reversed(range(len(series.window))):
        if series.window[at] is not None:
            series.window[at] = tokens
            return


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Generic[T]):
    """A value at a place, and how high it stands."""

    at: int
    height: int
    value: T


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket(Generic[T]):
    """Neighbouring points, known by four of them."""

    first: Point[T]
    last: Point[T]
    low: Point[T]
    high: Point[T]

    def joined(self, later: _Bucket[T]) -> _Bucket[T]:
        """Return this bucket and the one right after it as one; of equals the earlier is shown."""
        low = later.low if later.low.height < self.low.height else self.low
        high = later.high if later.high.height > self.high.height else self.high
        return _Bucket(first=self.first, last=later.last, low=low, high=high)


class Buckets(Generic[T]):
    """Points in the order of their places, in at most `most` buckets of one width, which doubles for all when there are more.

    What it holds depends on the points alone, not on how many were added at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._width = 1
        self._buckets: dict[int, _Bucket[T]] = {}

    def add(self, point: Point[T]) -> None:
        """Add a point that stands behind all others."""
        self._put(point.at // self._width, _Bucket(first=point, last=point, low=point, high=point))
        while len(self._buckets) > self._most:
            narrow, self._buckets = self._buckets, {}
            self._width *= 2
            for index, bucket in narrow.items():
                self._put(index // 2, bucket)

    def firsts(self) -> list[Point[T]]:
        """Return one point of each bucket; one that is not among them will not be among them later."""
        return [bucket.first for bucket in self._buckets.values()]

    def points(self) -> Iterator[Point[T]]:
        """Yield at most four points of each bucket, in order."""
        for bucket in self._buckets.values():
            shown = {point.at: point for point in (bucket.first, bucket.last, bucket.low, bucket.high)}
            yield from (shown[at] for at in sorted(shown))

    def _put(self, index: int, bucket: _Bucket[T]) -> None:
        held = self._buckets.get(index)
        self._buckets[index] = bucket if held is None else held.joined(bucket)
