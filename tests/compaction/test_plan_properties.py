"""What holds for the window after a compaction, whatever the history and however small the frontier."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import RESPONSES, Json, Rollout, views
from tests.strategies import histories

from threadkeep.items import Item, ItemKind, find_open_calls, find_orphans
from threadkeep.threads import EntryKind, History, Pointer

budgets = st.sampled_from([0, 1, 30, 200, 1_000, 5_000, 100_000])
FAST = settings(max_examples=40, deadline=None)


def compacted(items: list[Json], budget: int) -> Rollout:
    rollout = Rollout(items)
    rollout.compact(frontier_tokens=budget)
    return rollout


def sources(history: History) -> list[Pointer]:
    return [entry.source for entry in history.entries if entry.source is not None]


@FAST
@given(histories(), budgets)
def test_no_cut_orphans_an_output(items: list[Json], budget: int) -> None:
    """A plan never separates an output from its call, which a provider would refuse."""
    assert find_orphans(views(compacted(items, budget).history())) == []


@FAST
@given(histories(), budgets)
def test_no_finished_call_loses_its_output(items: list[Json], budget: int) -> None:
    """A call that had its output has it still, or neither is there."""
    rollout = Rollout(items)
    running = set(find_open_calls(views(rollout.history())))
    rollout.compact(frontier_tokens=budget)
    assert set(find_open_calls(views(rollout.history()))) <= running


@FAST
@given(histories(), budgets)
def test_a_running_call_waits_in_the_window_for_its_output(items: list[Json], budget: int) -> None:
    """The output comes after the compaction; without its call it would be an orphan."""
    rollout = Rollout(items)
    running = find_open_calls(views(rollout.history()))
    rollout.compact(frontier_tokens=budget)
    assert find_open_calls(views(rollout.history())) == running


@FAST
@given(histories(), budgets)
def test_reasoning_stays_with_the_item_it_belongs_to(items: list[Json], budget: int) -> None:
    """Kept reasoning is followed by the item it led to."""
    rollout = Rollout(items)
    before = sources(rollout.history())
    follower = dict(pairwise(before))
    rollout.compact(frontier_tokens=budget)
    after = sources(rollout.history())
    thoughts = {entry.source for entry in rollout.history().entries if RESPONSES.view(entry.item).kind is ItemKind.REASONING}
    for index, source in enumerate(after):
        if source in thoughts:
            assert after[index + 1] == follower[source]


@FAST
@given(histories(), budgets)
def test_the_newest_request_is_in_the_window_byte_for_byte(items: list[Json], budget: int) -> None:
    """The current request is never rephrased."""
    rollout = compacted(items, budget)
    newest = [record for record in rollout.items if RESPONSES.view(Item(record.body)).by_person][-1:]
    window = {entry.source: entry.item.raw for entry in rollout.history().entries}
    for record in newest:
        assert window[Pointer("t", record.ordinal)] == record.body


@FAST
@given(histories(), budgets)
def test_the_newest_of_each_host_context_is_there_exactly_once(items: list[Json], budget: int) -> None:
    """The model knows its world as it is, and is told it once."""
    rollout = compacted(items, budget)
    newest = {}
    for entry in Rollout(items).history().entries:
        section = RESPONSES.view(entry.item).context
        if section is not None:
            newest[section] = entry.source
    after = sources(rollout.history())
    assert {section: after.count(source) for section, source in newest.items() if source} == dict.fromkeys(newest, 1)


@FAST
@given(histories(), budgets)
def test_what_is_kept_is_kept_once_and_in_its_own_bytes(items: list[Json], budget: int) -> None:
    """A kept position is its record; no record stands twice."""
    rollout = compacted(items, budget)
    recorded = {Pointer("t", record.ordinal): record.body for record in rollout.items}
    entries = [entry for entry in rollout.history().entries if entry.source is not None]
    assert all(entry.item.raw == recorded[entry.source] for entry in entries if entry.source and entry.kind is EntryKind.KEEP)
    assert len({entry.source for entry in entries}) == len(entries)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(histories(open_end=False, max_turns=2), budgets), min_size=1, max_size=4))
def test_after_any_number_of_compactions_there_is_one_state_and_no_orphan(rounds: list[tuple[list[Json], int]]) -> None:
    """The old state gives way to the new one; kept pairs stay pairs through every later cut."""
    rollout = Rollout()
    for number, (items, budget) in enumerate(rounds):
        rollout.add([{**item, "call_id": f"{number}-{item['call_id']}"} if "call_id" in item else item for item in items])
        rollout.compact(frontier_tokens=budget)
        history = rollout.history()
        assert [entry.kind for entry in history.entries].count(EntryKind.STATE) == 1
        assert find_orphans(views(history)) == find_open_calls(views(history)) == []


@FAST
@given(histories(), budgets)
def test_a_plan_loses_nothing(items: list[Json], budget: int) -> None:
    """Context, request, tail and replaced are the whole window, each position once."""
    rollout = Rollout(items)
    plan = rollout.plan(frontier_tokens=budget)
    parts = (
        *plan.head,
        *plan.context,
        *((plan.request,) if plan.request else ()),
        *(kept.seen for kept in plan.tail),
        *plan.replaced,
    )
    assert sorted(str(seen.entry.source) for seen in parts) == sorted(map(str, sources(rollout.history())))


@FAST
@given(histories(), budgets)
def test_the_window_is_what_the_plan_kept_in_its_order(items: list[Json], budget: int) -> None:
    """Head, host context, the request where it fell behind the cut, the tail: nothing is missing and nothing else is there."""
    rollout = Rollout(items)
    plan = rollout.plan(frontier_tokens=budget)
    kept = (*plan.head, *plan.context, *((plan.request,) if plan.request else ()), *(position.seen for position in plan.tail))
    rollout.compact(frontier_tokens=budget)
    assert sources(rollout.history()) == [seen.entry.source for seen in kept]


@FAST
@given(histories(), st.integers(min_value=0, max_value=200_000))
def test_instructions_in_front_stay_in_front_of_the_state(items: list[Json], budget: int) -> None:
    """Also where the frontier has room for everything: behind the state a provider would not take them for instructions."""
    instructions = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}
    rollout = compacted([instructions, *items], budget)
    first, *rest = rollout.history().entries
    assert (first.item.raw, [entry.kind for entry in rest].count(EntryKind.STATE)) == (rollout.items[0].body, 1)
