"""Fewer points of a curve, its shape kept: neighbours share a bucket, and of each bucket only its ends and extremes are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

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
