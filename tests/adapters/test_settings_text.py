"""Settings as text: for any settings a client may have, our part comes in and goes out again and nothing else moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.adapters.client_settings.draft import Draft, unwind
from threadkeep.adapters.client_settings.json_text import add_element, find, parse, put_value, remove_element, remove_value
from threadkeep.errors import BadInput

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=6), values, max_size=3)
settings = st.tuples(objects, st.none() | objects).map(lambda both: {**both[0], **({} if both[1] is None else {"env": both[1]})})
indents = st.sampled_from([None, 2, 4, "\t"])

COMMENTED = """// Mine.
{
  "provider": {
    "local": {"options": {"baseURL": "http://127.0.0.1:11434/v1"}}, // ollama
    /* off: "openai": {} */
  },
  "theme": "dark", // not light
}
"""


@given(settings, indents, values)
def test_a_value_is_put_and_nothing_else_changes(known: dict[str, Any], indent: int | str | None, value: object) -> None:
    """The settings mean what they meant, with one value more; replayed backwards the edit gives the very text."""
    text = json.dumps(known, indent=indent)
    draft = Draft(text)
    put_value(draft, ("env", "URL"), value, comments=False)
    assert json.loads(draft.text) == {**known, "env": {**known.get("env", {}), "URL": value}}
    assert unwind(draft.text, draft.splices) == text


@given(settings, indents, values)
def test_a_value_that_is_removed_leaves_what_was_there(known: dict[str, Any], indent: int | str | None, value: object) -> None:
    """Without it the settings are what they were; an object made for it goes too."""
    draft = Draft(json.dumps(known, indent=indent))
    put_value(draft, ("env", "URL-", "x"), value, comments=False)
    remove_value(draft, ("env", "URL-", "x"), keep=1 if "env" in known else 0, comments=False)
    assert json.loads(draft.text) == known


@given(st.lists(values, max_size=3), indents, values, st.integers(0, 3))
def test_elements_come_and_go(known: list[object], indent: int | str | None, value: object, at: int) -> None:
    """An element is appended behind the others; any of them can be removed."""
    draft = Draft(json.dumps({"list": known, "z": 1}, indent=indent))
    add_element(draft, ("list",), value, comments=False)
    assert json.loads(draft.text) == {"list": [*known, value], "z": 1}
    index = min(at, len(known))
    left = [each for number, each in enumerate([*known, value]) if number != index]
    remove_element(draft, ("list",), index, keep=1, comments=False)
    assert json.loads(draft.text) == {"list": left, "z": 1}


def test_comments_and_trailing_commas_stay() -> None:
    """A member is added behind the comments of the last one, with a comma as the others have."""
    draft = Draft(COMMENTED)
    put_value(draft, ("provider", "openai", "options", "baseURL"), "http://127.0.0.1:4621/v1", comments=True)
    assert draft.text == COMMENTED.replace(
        '/* off: "openai": {} */\n',
        '/* off: "openai": {} */\n    "openai": {\n      "options": {\n        "baseURL": "http://127.0.0.1:4621/v1"\n'
        "      }\n    },\n",
    )
    remove_value(draft, ("provider", "openai", "options", "baseURL"), keep=1, comments=True)
    assert draft.text == COMMENTED


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"x": 1, "b": 2}', '{"b": 2}'),
        ('{"a": 1, "x": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ('{"a": 1, // c\n  "x": 1 // d\n}', '{"a": 1 // c // d\n}'),
        ('{ // c\n"x": 1, "b": 2}', '{ // c\n"b": 2}'),
        ('{ // c\n"x": 1}', "{ // c\n}"),
        ('{\n  "x": 1\n}', "{}"),
        ('{\r\n  "a": 1,\r\n  "x": 1\r\n}', '{\r\n  "a": 1\r\n}'),
    ],
)
def test_removing_keeps_comments_and_valid_json(text: str, left: str) -> None:
    """The comma goes with the member; a comment to the end of its line swallows nothing."""
    draft = Draft(text)
    remove_value(draft, ("x",), keep=0, comments=True)
    assert draft.text == left
    assert find(parse(draft.text, comments=True), ("x",)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: this is not valid JSON"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3: a comma or } is missing"),
        ('{"a": 1,}', "line 1: there is a comma behind the last value"),
        ('{"a": 1} x', "line 1: there is more text after the JSON value"),
        ("{\n// c\n}", "line 2: this is not valid JSON"),
        ("[1]", "line 1: this is not a JSON object"),
        ("[" * 300, "line 1: this is nested too deeply"),
        ("{1: 2}", "line 1: a name and a colon are missing"),
    ],
)
def test_text_that_is_no_json_is_refused_with_its_line(text: str, message: str) -> None:
    """So that the user finds the place."""
    with pytest.raises(BadInput) as caught:
        parse(text, comments=False)
    assert str(caught.value) == message
