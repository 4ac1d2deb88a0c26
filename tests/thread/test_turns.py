"""Laying items down: turns, chain, exact bytes."""

from __future__ import annotations

from hypothesis import given, settings
from tests.histories import KEY, RESPONSES, Json, Rollout, answered, developer, environment, said
from tests.strategies import histories

from threadkeep.items import chain_link, chain_seed
from threadkeep.store import RecordKind
from threadkeep.thread import TurnBody, decode_body


@settings(max_examples=80, deadline=None)
@given(histories())
def test_every_item_is_laid_down_once_in_its_own_bytes_and_linked(items: list[Json]) -> None:
    """The item records are the items, and their chain is the chain over them."""
    rollout = Rollout(items)
    link = chain_seed(KEY, dialect="responses")
    for depth, (record, value) in enumerate(zip(rollout.items, items, strict=True), start=1):
        item = RESPONSES.parse(value)
        link = chain_link(KEY, link, RESPONSES.canonical(item))
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
