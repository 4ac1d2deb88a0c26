"""A typed function is a tool: its schema, its arguments, what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from inline_snapshot import snapshot

from threadkeep.dialects import find_dialect
from threadkeep.errors import BadInput
from threadkeep.session import tool_from
from threadkeep.session.tools import decode_arguments

pytestmark = pytest.mark.anyio


@dataclass
class Place:
    row: int
    column: int


def move(
    who: Annotated[str, msgspec.Meta(description="Whom to move.")],
    to: Place,
    how: Literal["walk", "run"] = "walk",
    *,
    times: int = 1,
) -> dict[str, Any]:
    """Move somebody to a place."""
    return {"who": who, "row": to.row, "how": how, "times": times}


def test_the_schema_comes_from_the_annotations() -> None:
    """Descriptions, defaults, choices and nested values are in it; what has no default is required."""
    tool = tool_from(move)
    assert (tool.name, tool.description) == ("move", "Move somebody to a place.")
    assert tool.schema == snapshot(
        {
            "type": "object",
            "properties": {
                "who": {"description": "Whom to move.", "type": "string"},
                "to": {"$ref": "#/$defs/Place"},
                "how": {"enum": ["run", "walk"], "default": "walk"},
                "times": {"type": "integer", "default": 1},
            },
            "required": ["who", "to"],
            "additionalProperties": False,
            "$defs": {
                "Place": {
                    "title": "Place",
                    "type": "object",
                    "properties": {"row": {"type": "integer"}, "column": {"type": "integer"}},
                    "required": ["row", "column"],
                }
            },
        }
    )


async def test_arguments_arrive_as_the_types_they_were_declared_with() -> None:
    """A nested object is a dataclass; what was left out has its default; what is returned is JSON."""
    assert await tool_from(move).run({"who": "Ann", "to": {"row": 3, "column": 4}}) == (
        '{"who":"Ann","row":3,"how":"walk","times":1}'
    )


@pytest.mark.parametrize(
    "given",
    [{"who": "Ann"}, {"who": "Ann", "to": {"row": "x", "column": 1}}, {"who": "A", "to": {"row": 1, "column": 1}, "z": 1}],
)
async def test_wrong_arguments_never_reach_the_function(given: dict[str, Any]) -> None:
    """One that is missing, of the wrong type, or unknown."""
    with pytest.raises(msgspec.ValidationError):
        await tool_from(move).run(given)


def test_a_function_that_cannot_be_described_is_refused() -> None:
    """Without a docstring, without an annotation, or with one that JSON cannot carry."""

    def silent(x: int) -> None: ...

    def untyped(x):  # type: ignore[no-untyped-def]
        """Do."""

    def spread(*x: int) -> None:
        """Do."""

    class Foreign: ...

    def foreign(x: Foreign) -> None:
        """Do."""

    foreign.__annotations__["x"] = Foreign
    refused = []
    for function in (silent, untyped, spread, foreign):
        with pytest.raises(BadInput) as error:
            tool_from(function)
        refused.append(str(error.value).split("'")[1])
    assert refused == ["silent", "untyped", "spread", "foreign"]


@pytest.mark.parametrize("text", ["[1]", "{", '"x"'])
def test_arguments_that_are_no_object_are_refused(text: str) -> None:
    """A model that was cut off leaves such."""
    with pytest.raises(BadInput):
        decode_arguments(text)


def test_no_arguments_at_all_are_an_empty_object() -> None:
    """Some servers send an empty text for a tool without arguments."""
    assert decode_arguments("") == {}


def test_each_dialect_has_its_own_form_of_a_tool() -> None:
    """The four ways providers want to be told."""
    schema = {"type": "object", "properties": {}}
    tools = [find_dialect(dialect).api for dialect in ("responses", "chat", "messages", "gemini")]
    made = [each.define_tool(name="t", description="d", parameters=schema) for each in tools]
    assert made == [
        {"type": "function", "name": "t", "description": "d", "parameters": schema},
        {"type": "function", "function": {"name": "t", "description": "d", "parameters": schema}},
        {"name": "t", "description": "d", "input_schema": schema},
        {"functionDeclarations": [{"name": "t", "description": "d", "parametersJsonSchema": schema}]},
    ]
