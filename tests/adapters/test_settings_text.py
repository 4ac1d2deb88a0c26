"""Settings as text: for any settings a client may have, our part comes in and goes out again and nothing else moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.adapters.client_settings.text_edits import Add, Form, Part, Put, make_edit, read_settings, undo_part
from threadkeep.errors import BadInput

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=6), values, max_size=3)
settings = st.tuples(objects, st.none() | objects).map(lambda both: {**both[0], **({} if both[1] is None else {"env": both[1]})})
indents = st.sampled_from([None, 2, 4, "\t"])
URL = "http://127.0.0.1:4621"
PUT = Put(path=("env", "URL"), value=URL)

COMMENTED = """// Mine.
{
  "provider": {
    "local": {"options": {"baseURL": "http://127.0.0.1:11434/v1"}}, // ollama
    /* off: "openai": {} */
  },
  "theme": "dark" // not light
}
"""


def undo(text: str, parts: list[Part], form: Form = "json") -> str:
    for part in reversed(parts):
        text = undo_part(text, form, part) or text
    return text


@given(settings, indents)
def test_a_value_is_put_and_nothing_else_changes(known: dict[str, Any], indent: int | str | None) -> None:
    """The settings mean what they meant, with one value more; undoing gives the very text."""
    text = json.dumps(known, indent=indent)
    edited, parts = make_edit(text, "json", PUT)
    assert json.loads(edited) == {**known, "env": {**known.get("env", {}), "URL": URL}}
    assert undo(edited, parts) == text


@given(settings, indents, objects)
def test_a_value_goes_from_settings_that_were_spelled_anew(known: dict[str, Any], indent: int | str | None, more: Any) -> None:
    """What the client added meanwhile stays, in its order; objects made for the value go if nothing else is in them."""
    edited, parts = make_edit(json.dumps(known), "json", PUT)
    later = {**json.loads(edited), **{f"{name}+": value for name, value in more.items()}}
    left = json.loads(undo(json.dumps(later, indent=indent), parts))
    expected = {**known, **{f"{name}+": value for name, value in more.items()}}
    assert left == expected or left == {name: value for name, value in expected.items() if name != "env" or value}


@given(st.lists(values, max_size=3), indents)
def test_elements_come_and_go(known: list[object], indent: int | str | None) -> None:
    """An element is appended behind the others, and undoing gives the very text."""
    text = json.dumps({"list": known, "z": 1}, indent=indent)
    edit = Add(path=("list",), value={"ours": True}, replaces=lambda _: False)
    edited, parts = make_edit(text, "json", edit)
    assert json.loads(edited) == {"list": [*known, {"ours": True}], "z": 1}
    assert undo(edited, parts) == text


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_comments_and_trailing_commas_stay(ending: str) -> None:
    """A member is added behind the comments of the last one, with a comma as the others have; line ends stay."""
    text = COMMENTED.replace("\n", ending)
    edited, parts = make_edit(text, "jsonc", Put(path=("provider", "openai", "options", "baseURL"), value=URL))
    behind = '/* off: "openai": {} */\n'
    added = f'    "openai": {{\n      "options": {{\n        "baseURL": "{URL}"\n      }}\n    }},\n'
    assert edited == COMMENTED.replace(behind, behind + added).replace("\n", ending)
    beside, more = make_edit(edited, "jsonc", Put(path=("model",), value="x"))
    assert '"theme": "dark", // not light' in beside
    assert undo(beside, [*parts, *more], "jsonc") == text
    assert undo(beside.replace("// Mine", "// Yours"), [*parts, *more], "jsonc") == text.replace("// Mine", "// Yours")


def test_of_two_equal_texts_the_right_one_goes() -> None:
    """An undo proves that the value it takes back stood where it was written."""
    text = '{"a": {"url": "x"}, "b": {"url": "y"}}'
    edited, parts = make_edit(text, "json", Put(path=("b", "url"), value="z"))
    moved = edited.replace('"x"', '"z"').replace('{"a"', '{"longer": "by far", "a"')
    assert undo(moved, parts) == '{"longer": "by far", "a": {"url": "z"}, "b": {"url": "y"}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', "line 3: this is not valid JSON (Expecting ',' delimiter)"),
        ('{"a": 1} x', "line 1: this is not valid JSON (Extra data)"),
        ("{\n// c\n}", "line 2: this is not valid JSON (Expecting property name enclosed in double quotes)"),
        ("[1]", "line 1: this is not a JSON object"),
        ("[" * 100_000, "this is nested too deeply"),
    ],
)
def test_text_that_is_no_json_is_refused_with_its_line(text: str, message: str) -> None:
    """So that the user finds the place."""
    with pytest.raises(BadInput) as caught:
        read_settings(text, "json")
    assert str(caught.value) == message
