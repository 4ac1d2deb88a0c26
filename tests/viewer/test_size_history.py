"""The plot of a long thread has the thread's shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.viewer.stories import appended, long_thread

from threadkeep import Threadkeep
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import ReplyBody, encode_body
from threadkeep.viewer.size_history import MOST_POINTS, Point, SizeHistory, read_size_history, thin


def line(series: SizeHistory) -> list[tuple[int, int]]:
    """Return the plotted sizes by record."""
    return [(at, size) for at, size in zip(series.ordinals, series.window, strict=True) if size is not None]


def thin_heights(heights: Sequence[int], *, buckets: int) -> list[tuple[int, int]]:
    points = [Point(ordinal=at, at_ms=0, size=height) for at, height in enumerate(heights)]
    return [(point.ordinal, point.size) for point in thin(points, buckets=buckets)]


@given(heights=st.lists(st.integers(0, 1_000), min_size=1, max_size=300), most=st.integers(1, 20))
def test_thinned_points_are_few_in_order_and_reach_as_far(heights: list[int], most: int) -> None:
    """Of any curve: its ends, its highest and its lowest are there, nothing is that was not, and gaps are alike."""
    shown = thin_heights(heights, buckets=most)
    assert len(shown) <= 4 * most
    assert [at for at, _ in shown] == sorted({at for at, _ in shown})
    assert all(heights[at] == height for at, height in shown)
    assert (shown[0][0], shown[-1][0]) == (0, len(heights) - 1)
    assert {min(heights), max(heights)} <= {height for _, height in shown}
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(shown)]
    assert max(gaps, default=1) <= max(1, 4 * len(heights) // most)


@pytest.mark.anyio
async def test_a_straight_line_stays_one(work: Threadkeep) -> None:
    """More than 20,000 records that add as much each: points lie on the line, as dense at its beginning as at its end."""
    thread = await long_thread(work, records=21_000)
    shown = line(await read_size_history(work, thread))
    last = (await work.backend.store.get(thread.id)).next
    # A turn has three records, the last two of which weigh 20 tokens each.
    assert [size for _, size in shown] == [at // 3 * 40 + (20 if at % 3 == 2 else 0) for at, _ in shown]
    tenths = [sum(last * part // 10 <= at < last * (part + 1) // 10 for at, _ in shown) for part in range(10)]
    assert len(shown) <= MOST_POINTS
    assert min(tenths) >= 0.9 * max(tenths)
    assert min(tenths) >= 30


@pytest.mark.anyio
async def test_of_very_many_replies_an_even_choice_is_plotted(work: Threadkeep) -> None:
    """What the provider counted is there from the first reply to the last, with no more points than a plot can show."""
    thread = await long_thread(work, records=100)
    body = encode_body(ReplyBody(items=[], outcome="completed", estimated_tokens=600, input_tokens=700, cached_tokens=70))
    reply = NewRecord(kind=RecordKind.REPLY, at_ms=0, turn=0, tokens=0, body=body)
    first = (await work.backend.store.get(thread.id)).next
    await appended(work, thread, [reply] * 2_000)
    history = await read_size_history(work, thread)
    counted = [at for at, count in zip(history.ordinals, history.counted, strict=True) if count is not None]
    assert 500 < len(counted) <= MOST_POINTS
    assert {later - earlier for earlier, later in pairwise(counted)} == {3}
    assert counted[0] == first
