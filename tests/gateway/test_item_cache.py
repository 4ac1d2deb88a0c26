"""What is remembered of histories never differs from what would be found out anew."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.client import WIRES, answer, outputs_of, person

from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.command_detection import CommandNames
from threadkeep.gateway.conversation.item_cache import ITEM_BYTES, TURN_BYTES, History, ItemCache
from threadkeep.items import Item, View, link_chain, seed_chain

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

KEY = b"k"


def infos(wire: WireName, *, kept: int = 1000) -> ItemCache:
    return ItemCache(key=KEY, dialect=find_dialect(wire), names=CommandNames(), kept=kept)


def look(at: ItemCache, items: list[Item], agent: str) -> History:
    return asyncio.run(at.read(items, agent=agent))


def items_of(wire: WireName, words: list[str]) -> list[Item]:
    made: list[Any] = []
    for number, word in enumerate(words):
        made += [person(wire, word), answer(wire, f"to {word}"), *outputs_of(wire, {f"c{number % 2}": word})]
    return [Item(json.dumps(each).encode()) for each in made]


@pytest.mark.parametrize("wire", WIRES)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "/compact", "tk status"]), max_size=4), max_size=8),
    st.sampled_from(["", "sub"]),
    st.sampled_from([2, 1000]),
)
def test_what_is_remembered_is_what_would_be_found_anew(
    wire: WireName, histories: list[list[str]], agent: str, kept: int
) -> None:
    """Whatever was looked at before, in whatever order, and however little is kept."""
    remembering = infos(wire, kept=kept)
    for words in histories:
        items = items_of(wire, words)
        anew = look(infos(wire), items, agent)
        assert replace(look(remembering, items, agent), parsed={}) == replace(anew, parsed={})
        assert len(remembering) <= kept


@pytest.mark.parametrize("wire", WIRES)
def test_links_are_the_chain_a_store_keeps(wire: WireName) -> None:
    """Seeded by dialect and sub-agent, each link over the canonical form of its item."""
    dialect = find_dialect(wire)
    items = items_of(wire, ["a", "b"])
    link = seed_chain(KEY, dialect=wire, agent="sub")
    for item, found in zip(items, look(infos(wire), items, "sub").chain, strict=True):
        link = link_chain(KEY, link, dialect.canonical(item))
        assert found == link


def test_a_long_new_history_leaves_others_their_turn() -> None:
    """While it is read for the first time, what else waits for the event loop runs; a known one is over at once."""
    items = [Item(json.dumps(person("responses", f"{number} " + "word " * 2_000)).encode()) for number in range(40)]
    at = infos("responses")

    async def turns() -> int:
        taken = 0

        async def others() -> None:
            nonlocal taken
            while True:
                taken += 1
                await asyncio.sleep(0)

        waiting = asyncio.create_task(others())
        await at.read(items, agent="")
        waiting.cancel()
        return taken

    assert asyncio.run(turns()) >= 4
    assert asyncio.run(turns()) == 0


def test_many_short_items_leave_others_their_turn_too() -> None:
    """What counts is the work and not the bytes: between two turns of another task few items are read."""
    dialect = find_dialect("responses")
    reads = 0

    class Counted(type(dialect)):  # type: ignore[misc]
        def view(self, item: Item) -> View:
            nonlocal reads
            reads += 1
            return dialect.view(item)

    at = ItemCache(key=KEY, dialect=Counted(), names=CommandNames())
    items = [Item(json.dumps(person("responses", f"{number}")).encode()) for number in range(1_000)]

    async def read_between_turns() -> list[int]:
        seen: list[int] = []

        async def others() -> None:
            while True:
                seen.append(reads)
                await asyncio.sleep(0)

        waiting = asyncio.create_task(others())
        await asyncio.sleep(0)
        await at.read(items, agent="")
        waiting.cancel()
        return [later - earlier for earlier, later in pairwise([*seen, reads])]

    between = asyncio.run(read_between_turns())
    assert sum(between) == len(items)
    assert max(between) <= TURN_BYTES // ITEM_BYTES


@pytest.mark.parametrize("wire", WIRES)
@given(
    st.lists(st.sampled_from(["a", "b", "/compact", "tk status"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["a", "tk status"]), max_size=3),
)
def test_a_history_that_goes_on_from_an_earlier_one_is_what_would_be_found_anew(
    wire: WireName, words: list[str], more: list[str]
) -> None:
    """Nothing of what was known is read again, wherever between two messages the earlier one ended."""
    items = items_of(wire, [*words, *more])
    anew = look(infos(wire), items, "")
    for stop in range(1, len(items) + 1):
        earlier = look(infos(wire), items[:stop], "")
        found = asyncio.run(infos(wire).read(items, agent="", earlier=earlier))
        assert replace(found, parsed={}) == replace(anew, parsed={})
        assert min(found.parsed, default=stop) >= stop
