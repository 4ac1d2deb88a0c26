"""Messages: exact bytes, requests taken apart, outputs replaced.

Of one dialect alone: the fields and their bytes are the Messages API's; what holds in any is in test_contract.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.dialects import MESSAGES, Dialect
from threadkeep.items import Item, ItemKind, Role, View

FIXTURES = Path(__file__).parent / "fixtures" / "messages"
REQUESTS = [
    "client_traces",
    "leading_system",
    "reminders_in_first_message",
    "server_tools",
    "system_message_in_history",
]
DIALECT: Dialect = MESSAGES

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
kinds = st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "document", "server_tool_use", "hologram"])
near_blocks = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("id", "tool_use_id", "name", "input", "text", "content", "source", "cache_control"), json_values)
    | {"type": kinds | json_values},
)
near_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "oracle"]) | json_values},
    optional={"content": st.lists(near_blocks | json_values, max_size=4) | json_values, "id": json_values, "type": json_values},
)


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.json").read_bytes().strip()


def messages_in(body: bytes) -> list[Any]:
    found: list[Any] = json.loads(body)["messages"]
    return found


@pytest.mark.parametrize("name", REQUESTS)
def test_a_recorded_request_survives_to_the_byte(name: str) -> None:
    """Every form of block, field and message comes back as it was sent, in the order it was sent."""
    body = fixture(name)
    request = DIALECT.split(body)
    assert request is not None
    assert DIALECT.join(request, request.items) == body
    assert [json.loads(item.raw) for item in (*request.head, *request.items)] == messages_in(body)


def test_replacing_the_history_changes_no_other_field() -> None:
    """System, tools and every unknown field keep their bytes and their place when the messages change."""
    body = b'{"model":"m","top_p":0.90,"messages":[{"role":"user","content":"a"}],"new":{"x" : [1.0]},"system":["\\u00e9"]}'
    request = DIALECT.split(body)
    assert request is not None
    assert DIALECT.join(request, [Item(b'{"role":"user", "content":"b"}')]) == (
        b'{"model":"m","top_p":0.90,"messages":[{"role":"user", "content":"b"}],"new":{"x" : [1.0]},"system":["\\u00e9"]}'
    )


def test_only_a_leading_run_of_system_messages_is_head() -> None:
    """What a client writes anew each time stays out of the chain; a later system message is history."""
    request = DIALECT.split(fixture("leading_system"))
    assert request is not None
    expected = messages_in(fixture("leading_system"))
    assert [json.loads(item.raw) for item in request.head] == expected[:2]
    assert [json.loads(item.raw) for item in request.items] == expected[2:]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"model":"m"}', b'{"messages":[1]}', b'{"messages":{}}', b'{"messages":"x"}', b'{"messages":[{"role":"user"}'],
)
def test_a_request_without_readable_history_is_left_alone(body: bytes) -> None:
    """What cannot be taken apart is not taken apart."""
    assert DIALECT.split(body) is None


def test_half_an_emoji_costs_neither_the_request_nor_a_byte() -> None:
    r"""Clients cut strings inside a surrogate pair; a backslash that is itself escaped is no part of one."""
    first = rb'{"role":"user","content":"Never push \ud83d"}'
    second = rb'{"role":"user","content":[{"type":"text","text":"C:\\ud83d \uD83D\uDE42 \uDE42"}],"k":"\ud83d"}'
    body = b'{"model":"m","messages":[' + first + b"," + second + b'],"n":1.0}'
    request = DIALECT.split(body)
    assert request is not None
    assert request.items == (Item(first), Item(second))
    assert DIALECT.join(request, request.items) == body
    assert [DIALECT.view(item).said for item in request.items] == ["Never push \ufffd", "C:\\ud83d \U0001f642 \ufffd"]


@settings(max_examples=150, deadline=None)
@given(st.lists(near_messages, max_size=4), st.dictionaries(st.text(max_size=6), json_values, max_size=3))
def test_any_request_survives_to_the_byte(messages: list[Any], fields: dict[str, Any]) -> None:
    """Whatever the messages and the fields around them hold, splitting and joining changes nothing."""
    body = msgspec.json.encode({**fields, "model": "m", "messages": messages, "stream": True})
    request = DIALECT.split(body)
    assert request is not None
    assert DIALECT.join(request, request.items) == body


@settings(max_examples=300, deadline=None)
@given(json_values | near_messages)
def test_no_item_is_too_strange_to_be_seen(value: object) -> None:
    """Any JSON has a view and a canonical form; only messages of the user's role may be outputs, and their stubs stay such."""
    item = Item(msgspec.json.encode(value))
    view = DIALECT.view(item)
    stub = DIALECT.replace_output(item, "stub")
    assert DIALECT.canonical(item)
    assert (stub is not None) == (view.kind is ItemKind.OUTPUT)
    if stub is not None:
        assert (DIALECT.view(stub).closes, DIALECT.view(stub).said) == (view.closes, view.said)
    assert not (view.kind is ItemKind.OUTPUT and view.context)


@pytest.mark.parametrize(
    "raw", [b"\xff", b"", b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b'{"role":"user","content":1e9999999999999999999}', b"[1]"]
)
def test_bytes_only_a_provider_understands_are_opaque(raw: bytes) -> None:
    """Broken or extreme JSON is kept and never an error."""
    assert DIALECT.view(Item(raw)) == View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT)
    assert DIALECT.canonical(Item(raw)) == raw
    assert DIALECT.arrange([Item(raw), Item(raw)]) == [Item(raw), Item(raw)]


@settings(max_examples=80, deadline=None)
@given(near_messages)
def test_a_parsed_message_says_what_was_given(value: dict[str, Any]) -> None:
    """The bytes of a message decode to the very value it was made from, and parsing those again changes no byte."""
    item = DIALECT.parse(value)
    assert json.loads(item.raw) == value
    assert DIALECT.parse(json.loads(item.raw)) == item


def test_a_stub_changes_the_results_and_nothing_else() -> None:
    """Ids, error flags and every other block keep their bytes; each result gets the text, and no cache marker stays behind."""
    raw = (
        b'{"z": 1.0,"role":"user","content":['
        b'{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{}}],"is_error":true, "k":"\\u00e9"},'
        b'{"type":"tool_result","tool_use_id":"b","cache_control":{"type":"ephemeral"}},'
        b'{"text":"Use tabs.",  "type":"text"}]}'
    )
    assert DIALECT.replace_output(Item(raw), 'say "x"') == Item(
        b'{"z":1.0,"role":"user","content":['
        b'{"type":"tool_result","tool_use_id":"a","content":"say \\"x\\"","is_error":true,"k":"\\u00e9"},'
        b'{"type":"tool_result","tool_use_id":"b","content":"say \\"x\\""},'
        b'{"text":"Use tabs.",  "type":"text"}]}'
    )


def test_only_messages_with_tool_results_can_be_stubbed() -> None:
    """A question, an answer, a call or a result of the provider's own tools keeps its payload."""
    kept = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {}}]},
        {"role": "assistant", "content": [{"type": "mcp_tool_result", "tool_use_id": "a", "content": []}]},
        {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    ]
    assert [DIALECT.replace_output(DIALECT.parse(value), "stub") for value in kept] == [None] * 4


def test_the_state_is_a_users_message_with_one_text() -> None:
    """It reads like any message of that role."""
    assert DIALECT.make_user_message("S").raw == b'{"role":"user","content":[{"type":"text","text":"S"}]}'
