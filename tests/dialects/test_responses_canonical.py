"""The canonical form: one for all spellings of an item, another for every other item.

Of one dialect alone: the spellings that mean the same are the Responses API's; the other files test_*_canonical.py have others'.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import RESPONSES, Json, answered, call, output, reasoning, said
from tests.strategies import histories

from threadkeep.items import Item


def canonical(value: object) -> bytes:
    return RESPONSES.canonical(Item(json.dumps(value).encode()))


def _shuffled(value: object, order: random.Random) -> object:
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: _shuffled(value[name], order) for name in names}
    return [_shuffled(each, order) for each in value] if isinstance(value, list) else value


def _respelled(value: Json, order: random.Random) -> object:
    """The same item as another client, or the same client later, would send it."""
    item = dict(value)
    if item["type"] not in ("item_reference", "local_shell_call", "local_shell_call_output"):
        item["id"] = "other_id"
    item["status"] = "completed"
    item["cache_control"] = {"type": "ephemeral"}
    if item["type"] == "message":
        parts = [dict(part) for part in item["content"]]
        if len(parts) == 1 and order.random() < 0.5:
            item["content"] = parts[0]["text"]
        else:
            item["content"] = [{**part, "cache_control": {"type": "ephemeral"}, "annotations": []} for part in parts]
        if order.random() < 0.5:
            del item["type"]
    return _shuffled(item, order)


@settings(max_examples=80, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_every_spelling_of_an_item_has_one_canonical_form(items: list[Json], order: random.Random) -> None:
    """Key order, ids, status, cache markers, string or list of parts, a missing type: none of them is content."""
    for item in items:
        assert canonical(_respelled(item, order)) == canonical(item)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (said("port 8080"), said("port 8081")),
        (said("line"), said("line\n")),
        (said("x"), answered("x")),
        (call("a"), call("b")),
        (call("a", '{"x":1}'), call("a", '{"x": 1}')),
        (output("a", "x"), output("b", "x")),
        (reasoning("one"), reasoning("two")),
        ({"type": "new_thing", "v": 1}, {"type": "new_thing", "v": 2}),
        ({"type": "new_thing", "v": 1.5}, {"type": "new_thing", "v": "1.5"}),
        ({"type": "new_thing", "v": 1}, {"type": "new_thing", "v": True}),
        ({"type": "item_reference", "id": "msg_1"}, {"type": "item_reference", "id": "msg_2"}),
        (
            {"type": "local_shell_call_output", "id": "call_1", "output": "x"},
            {"type": "local_shell_call_output", "id": "call_2", "output": "x"},
        ),
    ],
)
def test_two_items_never_share_a_canonical_form(one: Json, other: Json) -> None:
    """A changed character, id of a call, encrypted thought or value is another history."""
    assert canonical(one) != canonical(other)


def test_a_number_that_no_float_can_hold_keeps_its_value() -> None:
    """Two numbers that a float would make one stay two."""
    one, other = b'{"type":"x","v":0.1000000000000000055}', b'{"type":"x","v":0.1}'
    assert RESPONSES.canonical(Item(one)) != RESPONSES.canonical(Item(other))


def test_an_empty_reasoning_content_is_no_content() -> None:
    """Clients send back `content: []` or leave it out, as they please."""
    assert canonical(reasoning("e", content=[])) == canonical(reasoning("e"))
