"""Laying items down: turns, chain, exact bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import SupportsIndex, overload

import pytest
from hypothesis import given, settings
from tests.histories import KEY, RESPONSES, Json, Rollout, answered, developer, environment, said
from tests.strategies import histories

from threadkeep.items import link_chain, seed_chain
from threadkeep.store import RecordKind
from threadkeep.threads import Arrival, Tip, TurnBody, decode_body, make_records
from threadkeep.threads.writer import make_arrival


@settings(max_examples=80, deadline=None)
@given(histories())
def test_every_item_is_laid_down_once_in_its_own_bytes_and_linked(items: list[Json]) -> None:
    """The item records are the items, and their chain is the chain over them."""
    rollout = Rollout(items)
    link = seed_chain(KEY, dialect="responses")
    for depth, (record, value) in enumerate(zip(rollout.items, items, strict=True), start=1):
        item = RESPONSES.parse(value)
        link = link_chain(KEY, link, RESPONSES.canonical(item))
        assert (record.body, record.chain, record.depth) == (item.raw, link, depth)


@settings(max_examples=80, deadline=None)
@given(histories())
def test_recording_at_once_or_one_by_one_gives_the_same_window_and_chain(items: list[Json]) -> None:
    """How a client batches its items is no part of what it said."""
    whole, piecemeal = Rollout(items), Rollout()
    for item in items:
        piecemeal.add([item])
    assert piecemeal.history().items == whole.history().items
    assert (piecemeal.tip.chain, piecemeal.tip.turn) == (whole.tip.chain, whole.tip.turn)


def test_what_a_host_says_right_before_a_request_belongs_to_its_turn() -> None:
    """A turn begins with the context that leads up to a person's message."""
    rollout = Rollout([said("one"), answered("yes"), environment("/b"), developer("<mode>x</mode>"), said("two\nlines")])
    kinds = [(record.kind, record.turn) for record in rollout.records]
    assert kinds == [
        (RecordKind.TURN, 1),
        (RecordKind.ITEM, 1),
        (RecordKind.ITEM, 1),
        (RecordKind.TURN, 2),
        (RecordKind.ITEM, 2),
        (RecordKind.ITEM, 2),
        (RecordKind.ITEM, 2),
    ]
    assert decode_body(rollout.records[3].body, TurnBody).preview == "two lines"


class Counted(list[Arrival]):
    """Items that count how often one of them is visited or copied."""

    visits = 0

    def __iter__(self) -> Iterator[Arrival]:
        for each in super().__iter__():
            self.visits += 1
            yield each

    @overload
    def __getitem__(self, index: SupportsIndex) -> Arrival: ...
    @overload
    def __getitem__(self, index: slice) -> list[Arrival]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Arrival | list[Arrival]:
        found = super().__getitem__(index)
        self.visits += len(found) if isinstance(found, list) else 1
        return found


@pytest.mark.parametrize("value", [said("m"), environment("/b")], ids=["messages", "host context"])
def test_twice_the_items_are_twice_the_visits(value: Json) -> None:
    """However many turns the items make, laying them down visits each a fixed number of times."""
    one = make_arrival(RESPONSES, RESPONSES.parse(value))
    tip = Tip(next=0, turn=0, depth=0, chain=seed_chain(KEY, dialect="responses"))
    counted = [Counted([one] * size) for size in (100, 200, 400)]
    for arrivals in counted:
        make_records(tip, arrivals, key=KEY, at_ms=0)
    first = counted[0].visits
    assert [each.visits for each in counted] == [first, 2 * first, 4 * first]
