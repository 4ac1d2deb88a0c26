"""What a compaction sheds and re-bills, and when it pays to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.histories import RESPONSES, Json, Rollout, answered, call, environment, output, said, turns

from threadkeep.compaction.early_compaction import Worth, compute_worth, foresee_worth, measure_request_growth
from threadkeep.compaction.engine import NO_DRAFT, conclude, propose
from threadkeep.compaction.plan import Position
from threadkeep.compaction.strategies.strategy import Goal
from threadkeep.items import Item
from threadkeep.tokens import estimate_item

tokens = st.integers(min_value=0, max_value=1_000_000)


def size(*items: Item) -> int:
    return sum(estimate_item(item.raw) for item in items)


def test_what_both_windows_begin_with_is_not_read_anew() -> None:
    """Only what stands behind the first difference misses the cache."""
    told = [said("Rules."), answered("A long answer. " * 50), said("The state."), said("Go on.")]
    head, old, new, last = (RESPONSES.parse(item) for item in told)
    expected = Worth(sheds=size(old) - size(new), rebills=size(new, last))
    assert compute_worth([head, old, last], [head, new, last]) == expected


def test_what_sheds_more_than_there_is_room_is_prepared_whatever_it_costs() -> None:
    """A window of 272,000 at its soft limit: 168,000 shed, 41,000 left. Waiting would compact less than twice as seldom."""
    dear = Worth(sheds=168_000, rebills=36_000, asks=1_000_000)
    assert not dear.waiting_is_cheaper(room_tokens=41_000, growth_tokens=20_000)


def test_what_sheds_little_and_is_read_anew_whole_waits() -> None:
    """Mostly rules: 2,000 a request are saved (a tenth of half the room), and 162,000 are paid every 20,000 instead of every
    60,000 tokens, which is 10,800 a request of 2,000.
    """
    assert Worth(sheds=20_000, rebills=180_000).waiting_is_cheaper(room_tokens=40_000, growth_tokens=2_000)


def test_a_soft_limit_far_below_the_hard_one_is_obeyed_where_little_is_read_anew() -> None:
    """11,750 a request are saved; 4,500 are paid every 5,000 instead of every 240,000 tokens: 881 a request of 1,000."""
    assert not Worth(sheds=5_000, rebills=5_000).waiting_is_cheaper(room_tokens=235_000, growth_tokens=1_000)


def test_a_draft_that_costs_much_can_wait() -> None:
    """What a model reads and writes for it counts like what is read anew: 1,200 or 7,867 a request, against 2,000 saved."""
    cheap, dear = Worth(sheds=20_000, rebills=20_000), Worth(sheds=20_000, rebills=20_000, asks=100_000)
    assert not cheap.waiting_is_cheaper(room_tokens=40_000, growth_tokens=2_000)
    assert dear.waiting_is_cheaper(room_tokens=40_000, growth_tokens=2_000)


@given(sheds=tokens, rebills=tokens, asks=tokens, growth=tokens)
def test_without_room_nobody_waits(sheds: int, rebills: int, asks: int, growth: int) -> None:
    """At the limit there is no choice, whatever it costs."""
    assert not Worth(sheds=sheds, rebills=rebills, asks=asks).waiting_is_cheaper(room_tokens=0, growth_tokens=growth)


@given(sheds=tokens, rebills=tokens, room=tokens, growth=tokens)
def test_shedding_more_never_makes_waiting_cheaper(sheds: int, rebills: int, room: int, growth: int) -> None:
    """If it pays now, it pays all the more with more to shed."""
    if not Worth(sheds=sheds, rebills=rebills).waiting_is_cheaper(room_tokens=room, growth_tokens=growth):
        assert not Worth(sheds=sheds + 1_000, rebills=rebills).waiting_is_cheaper(room_tokens=room, growth_tokens=growth)


def shown(history: list[Json]) -> list[Position]:
    return [Position(entry=entry, view=RESPONSES.view(entry.item)) for entry in Rollout(history).history().entries]


def test_a_request_adds_what_came_since_the_last_answer_and_its_own() -> None:
    """The middle of three: a long question is no measure for those after it."""
    history = [said("Read this. " + "word " * 400), answered("Done."), said("And?"), call("c"), output("c"), answered("Fine.")]
    sizes = [size(RESPONSES.parse(item)) for item in history]
    assert measure_request_growth(shown(history)) == sorted([sum(sizes[:2]), sum(sizes[2:4]), sum(sizes[4:])])[1]
    assert measure_request_growth(shown([said("Nobody answered yet.")])) == 0


@pytest.mark.parametrize("compactions", [0, 1, 3])
def test_what_a_plan_foresees_is_about_what_comes_of_it(compactions: int) -> None:
    """Within a tenth of the window, before the first checkpoint and after some; the model is not asked to know it."""
    rollout = Rollout([environment("/src"), *turns(1, 30)])
    for number in range(1, compactions + 1):
        rollout.compact(frontier_tokens=1_000)
        rollout.add(turns(30 * number + 1, 30 * number + 30))
    proposal = propose(rollout.history(), thread_id="t", dialect=RESPONSES, tip=rollout.tip, goal=Goal(window_tokens=10_000))
    found = conclude(proposal, NO_DRAFT).worth
    told = foresee_worth(proposal.brief, quoted_tokens=proposal.quoted_tokens, draft_price=0.1)
    margin = proposal.tokens_before // 10
    assert abs(told.sheds - found.sheds) < margin
    assert abs(told.rebills - found.rebills) < margin
    assert told.asks == round(proposal.tokens_before * 0.1)
