"""Lists, and texts without line ends, are told by what changed in them, and what is recorded makes the new world of the old."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from threadkeep.errors import BadInput
from threadkeep.threads.baseline import Change, Whole, apply_changes, check_world, compare_worlds, diff_worlds, render_baseline
from threadkeep.threads.json_diff import apply_edits, diff_json

ENTITIES = 20_000

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab ", max_size=900)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=4)
)


def entity(number: int, state: int) -> dict[str, Any]:
    return {"id": number, "hp": 100, "at": f"cell {number}", "n": state if number % 100 == 0 else 0}


KINDS: dict[str, Callable[[int], Any]] = {
    "object of objects": lambda state: {f"e{number}": entity(number, state) for number in range(ENTITIES)},
    "list of objects": lambda state: [entity(number, state) for number in range(ENTITIES)],
    "object with a list": lambda state: {"entities": [entity(number, state) for number in range(ENTITIES)]},
    "list of lists": lambda state: [[entity(row * 100 + at, state) for at in range(100)] for row in range(ENTITIES // 100)],
    "one line": lambda state: "; ".join(
        f"e{number} at cell {number} n {entity(number, state)['n']}" for number in range(ENTITIES)
    ),
    "object with a line": lambda state: {"map": "; ".join(f"e{n} n {entity(n, state)['n']}" for n in range(ENTITIES))},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_of_any_kind_costs_what_changed(kind: str) -> None:
    """One part in a hundred changes: what is told is less than a tenth of the whole, and makes the new world."""
    old, new = check_world({"w": KINDS[kind](0)}), check_world({"w": KINDS[kind](1)})
    whole, part = compare_worlds(old, known=None), compare_worlds(new, known=old)
    assert whole is not None
    assert part is not None
    assert len(render_baseline(part)) * 10 < len(render_baseline(whole))
    assert apply_changes(part.told, to=old) == new


@given(values, values)
def test_edits_make_one_value_of_another(old: Any, new: Any) -> None:
    """Through JSON and back, and the old value stays as it was."""
    before = msgspec.json.encode(old)
    edits = diff_json(old, new)
    if edits is not None:
        assert _written(apply_edits(old, edits)) == _written(new)
    assert msgspec.json.encode(old) == before
    known, world = check_world({"w": old}), check_world({"w": new})
    told = msgspec.json.decode(msgspec.json.encode(diff_worlds(known, world)), type=dict[str, Change])
    assert _written(apply_changes(told, to=known)) == _written(world)


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(["cut", "add", "change", "swap"]), min_size=1, max_size=12))
def test_lists_that_grow_shrink_and_move_are_made_again(chance: random.Random, steps: list[str]) -> None:
    """Elements taken out, put in, changed and moved, in one telling."""
    old = [entity(number, 0) for number in range(60)]
    new = [dict(each) for each in old]
    for number, step in enumerate(steps):
        at = chance.randrange(len(new))
        match step:
            case "cut":
                del new[at]
            case "add":
                new.insert(at, entity(1_000 + number, 1))
            case "change":
                new[at] = {**new[at], "hp": number}
            case _:
                new[at], new[0] = new[0], new[at]
    told = diff_worlds({"w": old}, {"w": new})
    assert apply_changes(told, to={"w": old}) == {"w": new}


def test_what_is_told_names_places_as_they_were() -> None:
    """Fields, elements that came and went, and pieces of a text with what stands before them."""
    words = " ".join(f"word{number}" for number in range(90))
    old = {"people": [entity(number, 0) for number in range(9)], "map": words, "day": 1, "wind": "north"}
    new = {
        "people": [entity(0, 7), *(entity(number, 0) for number in range(2, 9)), entity(9, 0)],
        "map": words.replace("word50", "here"),
    }
    telling = compare_worlds({"w": {**new, "day": 2}}, known={"w": old})
    assert telling is not None
    assert render_baseline(telling) == snapshot("""\
<environment_context update="changes">
Your world changed since it was last described; what is not named here is as it was.
<section name="w" change="edits; places as they were before any of them, list elements counted from 0">
{"at":["wind"],"gone":true}
{"at":["people"],"from":0,"in place of":2,"now":[{"id":0,"hp":100,"at":"cell 0","n":7}]}
{"at":["people"],"from":9,"in place of":0,"now":[{"id":9,"hp":100,"at":"cell 9","n":0}]}
{"at":["map"],"after":"rd44 word45 word46 word47 word48 word49 ","in place of":"word50 ","now":"here "}
{"at":["day"],"now":2}
</section>
</environment_context>\
""")


def test_a_value_of_little_in_common_is_told_whole() -> None:
    """Naming every part of it would say no less."""
    old, new = [f"a{number}" * 9 for number in range(50)], [f"b{number}" * 9 for number in range(50)]
    assert diff_worlds({"w": old}, {"w": new}) == {"w": Whole(value=new)}


def test_deep_values_are_told_without_end() -> None:
    """Below some depth a change is told whole."""

    def nested(inner: Any) -> Any:
        for number in range(200):
            inner = {"x": inner, "pad": ["p" * 30] * (number % 2), "n": number}
        return inner

    old, new = nested({"list": [1, 2, 3]}), nested({"list": [1, 4, 3]})
    assert apply_changes(diff_worlds({"w": old}, {"w": new}), to={"w": old}) == {"w": new}


@pytest.mark.parametrize("sections", [{"x": "\ud800"}, {"x": {"y": ["\udcff"]}}, {"\udcff": "x"}])
def test_half_a_character_is_no_text(sections: dict[str, object]) -> None:
    """A name or a value that UTF-8 cannot say is refused by name."""
    with pytest.raises(BadInput, match="named sections"):
        check_world(sections)


def _written(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
