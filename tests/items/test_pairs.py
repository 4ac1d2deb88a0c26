"""Where a history may be cut, and what a cut must never do."""

from __future__ import annotations

from hypothesis import given, settings
from tests.histories import RESPONSES, Json, answered, call, output, reasoning, said
from tests.strategies import histories

from threadkeep.items import ItemKind, find_boundaries, find_open_calls, find_orphans


def cuts(items: list[Json]) -> list[int]:
    return find_boundaries([RESPONSES.view(RESPONSES.parse(item)) for item in items])


@settings(max_examples=120, deadline=None)
@given(histories())
def test_no_boundary_separates_what_belongs_together(items: list[Json]) -> None:
    """Cut at any boundary: what follows has no orphan, and does not begin with what reasoning was bound to."""
    views = [RESPONSES.view(RESPONSES.parse(item)) for item in items]
    for cut in find_boundaries(views):
        assert find_orphans(views[cut:]) == []
        assert not (0 < cut < len(views) and views[cut - 1].kind is ItemKind.REASONING)


def test_a_cut_stands_between_complete_pairs_and_nowhere_inside_one() -> None:
    """Parallel calls are one unit, and reasoning is one with what follows it."""
    items = [said("go"), reasoning(), call("a"), call("b"), output("b"), output("a"), answered("done")]
    assert cuts(items) == [0, 1, 6, 7]


def test_a_provider_that_reuses_call_ids_does_not_glue_its_turns_together() -> None:
    """A pair closed is closed: the same id in a later turn opens another pair."""
    items = [said("one"), call("call_0"), output("call_0"), said("two"), call("call_0"), output("call_0")]
    assert cuts(items) == [0, 1, 3, 4, 6]


def test_open_calls_are_those_without_an_output() -> None:
    """Calls are listed in the order they were opened."""
    items = [call("a"), call("b"), call("c"), output("b")]
    assert find_open_calls([RESPONSES.view(RESPONSES.parse(item)) for item in items]) == ["a", "c"]


def test_an_output_before_its_call_is_an_orphan() -> None:
    """Order counts: a provider reads from the front."""
    assert find_orphans([RESPONSES.view(RESPONSES.parse(item)) for item in (output("a"), call("a"))]) == ["a"]
