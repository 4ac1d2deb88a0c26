"""What threadkeep changes in messages it sends: their order of roles, their thinking, their cache markers.

Of one dialect alone: the order of roles, signed thinking and cache markers are rules of the Messages API.
"""

from __future__ import annotations

import json
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.dialects import MESSAGES
from threadkeep.dialects.messages.markers import count_markers, remove_markers, set_marker
from threadkeep.dialects.messages.thinking_blocks import remove_thinking
from threadkeep.items import Item

FIXTURES = Path(__file__).parent / "fixtures" / "messages"
RECORDED = [
    Item(json.dumps(message, ensure_ascii=False).encode())
    for path in sorted(FIXTURES.glob("*.json"))
    for message in json.loads(path.read_bytes()).get("messages", [])
]


def texts(role: str, *words: str) -> Item:
    content = words[0] if len(words) == 1 else [{"type": "text", "text": word} for word in words]
    return MESSAGES.parse({"role": role, "content": content})


@st.composite
def sequences(draw: st.DrawFn) -> list[Item]:
    """Messages of every role in any order; each call is followed by its result, which words may accompany or precede."""
    items: list[Item] = []
    for number in range(draw(st.integers(0, 8))):
        step = draw(st.sampled_from(["user", "assistant", "system", "call"]))
        words = draw(st.lists(st.sampled_from(["a", "b", "ü", 'say "x"']), min_size=1, max_size=2))
        if step != "call":
            items.append(texts(step, *words))
            continue
        use = {"type": "tool_use", "id": f"t{number}", "name": "n", "input": {"v": 1.0}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": words[0]}
        items.append(MESSAGES.parse({"role": "assistant", "content": [use]}))
        items.extend(texts("user", word) for word in draw(st.lists(st.just("meanwhile"), max_size=1)))
        items.append(
            MESSAGES.parse({"role": "user", "content": [result, {"type": "text", "text": "and"}][: draw(st.integers(1, 2))]})
        )
    return items


def blocks(item: Item) -> list[Any]:
    content = json.loads(item.raw)["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def role(item: Item) -> str:
    return str(json.loads(item.raw)["role"])


@settings(max_examples=200, deadline=None)
@given(sequences())
def test_roles_alternate_and_no_block_is_lost(items: list[Item]) -> None:
    """No two plain roles in a row; blocks stay in order but for results, which come first in a message that was merged."""
    arranged = MESSAGES.arrange(items)
    assert all(role(one) != role(other) or role(one) == "system" for one, other in pairwise(arranged))
    expected: list[list[Any]] = []
    for name, run in groupby(items, key=role):
        members = list(run)
        if name == "system" or len(members) == 1:
            expected.extend(blocks(item) for item in members)
        else:
            expected.append(
                sorted((block for item in members for block in blocks(item)), key=lambda block: block["type"] != "tool_result")
            )
    assert [blocks(item) for item in arranged] == expected


@settings(max_examples=200, deadline=None)
@given(sequences(), st.data())
def test_an_arranged_prefix_is_a_prefix_but_for_its_last_message(items: list[Item], data: st.DataObject) -> None:
    """What was sent before only grows."""
    cut = data.draw(st.integers(0, len(items)))
    before = MESSAGES.arrange(items[:cut])[:-1]
    assert MESSAGES.arrange(items)[: len(before)] == before


@settings(max_examples=60, deadline=None)
@given(sequences())
def test_arranging_twice_changes_nothing(items: list[Item]) -> None:
    """An arranged sequence is in order."""
    once = MESSAGES.arrange(items)
    assert MESSAGES.arrange(once) == once


def test_merged_messages_keep_the_bytes_of_every_block_and_field() -> None:
    """Escapes, spacing within blocks and unknown fields survive; a result goes before words that came too early."""
    items = [
        Item(b'{"role":"user","content":"caf\\u00e9","k": 1.0}'),
        Item(b'{"content":[{"type":"tool_result", "tool_use_id":"a"},{"type":"text","text":"x"}],"role":"user","k":2,"m":null}'),
    ]
    assert MESSAGES.arrange(items) == [
        Item(
            b'{"role":"user","content":[{"type":"tool_result", "tool_use_id":"a"},{"type":"text","text":"caf\\u00e9"},'
            b'{"type":"text","text":"x"}],"k":1.0,"m":null}'
        )
    ]


def test_messages_that_cannot_be_merged_stay_where_they_are() -> None:
    """A system message, an unknown role and content of an unknown form keep their neighbours apart; an answer may come first."""
    strange = [
        Item(b'{"role":"user","content":7}'),
        Item(b'{"role":"oracle","content":"e"}'),
        Item(b'{"role":"oracle","content":"f"}'),
    ]
    plain = [texts("assistant", "a"), texts("user", "b"), texts("system", "c"), texts("user", "d")]
    items = [*plain, *strange, texts("user", "g")]
    assert MESSAGES.arrange(items) == items


def test_thinking_is_taken_out_and_nothing_else() -> None:
    """Every other block and field keeps its bytes; a message of nothing but thinking keeps a word, since none may be empty."""
    mixed = Item(
        b'{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text", "text":"\\u00e9"},'
        b'{"type":"redacted_thinking","data":"d"},{"type":"tool_use","id":"a","name":"n","input":{"v": 1.0}}],"k":1}'
    )
    assert remove_thinking(mixed) == Item(
        b'{"role":"assistant","content":[{"type":"text", "text":"\\u00e9"},'
        b'{"type":"tool_use","id":"a","name":"n","input":{"v": 1.0}}],"k":1}'
    )
    alone = Item(b'{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}]}')
    assert remove_thinking(alone) == Item(b'{"role":"assistant","content":[{"type":"text","text":"(thinking removed)"}]}')
    assert [remove_thinking(item) is not item for item in (mixed, alone, remove_thinking(mixed), remove_thinking(alone))] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("item", [*RECORDED, Item(b"\xff"), Item(b"[]"), Item(b"{}"), Item(b'{"content":[1,[]]}')])
def test_a_message_without_thinking_or_markers_is_returned_as_it_is(item: Item) -> None:
    """Whatever its form, a message that need not change does not change by a byte."""
    bare = remove_markers(remove_thinking(item))
    assert remove_thinking(bare) is bare
    assert count_markers(bare) == 0
    assert remove_markers(remove_thinking(bare)) is bare
    assert count_markers(set_marker(bare)) in (0, 1)
    assert set_marker(set_marker(bare)) == set_marker(bare)


def test_markers_are_counted_at_every_depth_and_removed() -> None:
    """A message's own, its blocks' and those within a result count; null is none, and an input may hold the word."""
    marked = Item(
        b'{"cache_control":{"type":"ephemeral"},"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x",'
        b'"cache_control":{"type":"ephemeral"}}],"cache_control":{"type":"ephemeral"}},{"type":"text","text":"y","cache_control":null},'
        b'{"type":"tool_use","input":{"cache_control":{"type":"ephemeral"}}}]}'
    )
    assert count_markers(marked) == 3
    assert remove_markers(marked) == Item(
        b'{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]},{"type":"text","text":"y",'
        b'"cache_control":null},{"type":"tool_use","input":{"cache_control":{"type":"ephemeral"}}}]}'
    )


@pytest.mark.parametrize(
    ("raw", "marked"),
    [
        (b'{"role":"user","content":"\\u00e9"}', b'{"role":"user","content":[{"type":"text","text":"\\u00e9",CC}]}'),
        (
            b'{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"t"}]}',
            b'{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"t",CC}]}',
        ),
        (
            b'{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"thinking","thinking":"t"}]}',
            b'{"role":"assistant","content":[{"type":"text","text":"a",CC},{"type":"text","text":""},{"type":"thinking","thinking":"t"}]}',
        ),
        (b'{"role":"user","content":""}', b'{"role":"user","content":""}'),
        (
            b'{"role":"user","content":[{"type":"text","text":"a",CC}]}',
            b'{"role":"user","content":[{"type":"text","text":"a",CC}]}',
        ),
    ],
)
def test_a_marker_goes_on_the_last_block_that_may_carry_one(raw: bytes, marked: bytes) -> None:
    """Thinking and empty text may not; a string becomes a block; one marker is enough."""
    marker = b'"cache_control":{"type":"ephemeral"}'
    assert set_marker(Item(raw.replace(b"CC", marker))) == Item(marked.replace(b"CC", marker))
