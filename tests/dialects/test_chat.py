"""Chat items and requests: exact bytes, in and out.

Of one dialect alone: the fields and their bytes are Chat Completions'; what holds in any is in test_contract.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.dialects import CHAT
from threadkeep.items import Item, ItemKind

REQUESTS = sorted((Path(__file__).parent / "fixtures" / "chat" / "requests").glob("*.json"))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
roles = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "critic"])
near_messages = st.fixed_dictionaries(
    {"role": roles},
    optional={
        "content": json_values,
        "tool_calls": st.one_of(json_values, st.lists(st.fixed_dictionaries({"id": json_values, "function": json_values}))),
        "function_call": json_values,
        "tool_call_id": json_values,
        "reasoning_content": json_values,
        "reasoning_details": json_values,
        "refusal": json_values,
        "audio": json_values,
    },
)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_a_recorded_request_comes_back_byte_for_byte(path: Path) -> None:
    """Fields and messages of every form, known or not, keep their bytes and their order."""
    body = path.read_bytes().rstrip(b"\n")
    request = CHAT.split(body)
    assert request is not None
    assert CHAT.join(request, request.items) == body


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(near_messages, st.dictionaries(st.text(max_size=6), json_values, max_size=3)), max_size=5),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), json_values, max_size=4),
)
def test_splitting_and_joining_any_request_changes_no_byte(messages: list[Any], fields: dict[str, Any]) -> None:
    """Whatever the messages and the other fields hold, the request can be put together again."""
    body = msgspec.json.encode({**fields, "model": "m", "messages": messages, "stream": True})
    request = CHAT.split(body)
    assert request is not None
    assert [*request.head, *request.items] == [Item(msgspec.json.encode(message)) for message in messages]
    assert CHAT.join(request, request.items) == body


def test_a_new_history_takes_the_place_of_the_old_one() -> None:
    """Joining other items changes the messages after the head and nothing else."""
    request = CHAT.split(b'{"a":1.0,"messages":[{"role":"system","content":"s"},{"role":"user","content":"x"}],"b":[ ]}')
    assert request is not None
    state = CHAT.make_user_message("so far")
    assert CHAT.join(request, [state]) == (
        b'{"a":1.0,"messages":[{"role":"system","content":"s"},{"role":"user","content":"so far"}],"b":[ ]}'
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"model":"m"}',
        b'{"messages":null}',
        b'{"messages":"hi"}',
        b'{"messages":{}}',
        b'{"messages":[1]}',
        b'{"messages":[{"role":"user","content":"\\ud83d"},1]}',
        b'{"messages":[{"role":"user"}',
        b'{"messages":[{"role":"user","content":"\\ud83d"}',
        b'{"\\ud83d":1,"messages":[]}',
        b'{"messages":[' + b"[" * 20_000 + b"]" * 20_000 + b"]}",
    ],
)
def test_a_request_without_readable_messages_is_left_alone(body: bytes) -> None:
    """What cannot be taken apart is not taken apart."""
    assert CHAT.split(body) is None


def test_the_leading_run_of_instructions_is_head_and_not_history() -> None:
    """Clients write it anew for every request; a later instruction is history."""
    messages = [
        {"role": "system", "content": "today"},
        {"role": "developer", "content": None},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "late"},
    ]
    request = CHAT.split(msgspec.json.encode({"messages": messages}))
    assert request is not None
    assert [json.loads(item.raw) for item in request.head] == messages[:2]
    assert [json.loads(item.raw) for item in request.items] == messages[2:]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), json_values, max_size=4))
def test_a_parsed_item_says_what_was_given(value: dict[str, Any]) -> None:
    """The bytes of an item decode to the very value it was made from, and parsing those again changes no byte."""
    item = CHAT.parse(value)
    assert json.loads(item.raw) == value
    assert CHAT.parse(json.loads(item.raw)) == item


@settings(max_examples=300, deadline=None)
@given(st.one_of(json_values, near_messages))
def test_no_item_is_too_strange(value: object) -> None:
    """Whatever JSON an item is, it has a view and a canonical form, can be arranged, and keeps its bytes."""
    item = Item(msgspec.json.encode(value))
    assert CHAT.view(item).kind in ItemKind
    assert CHAT.canonical(item)
    assert CHAT.arrange([item]) == [item]
    stub = CHAT.replace_output(item, "stub")
    assert stub is None or json.loads(stub.raw) == {**json.loads(item.raw), "content": "stub"}


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.binary(max_size=20).map(lambda tail: b'{"role":"user","content":"' + tail + b'"}')))
def test_bytes_that_are_no_json_are_kept_too(raw: bytes) -> None:
    """Nothing raises on bytes of any kind, and what is sent on is what came."""
    item = Item(raw)
    assert CHAT.view(item).kind in ItemKind
    assert CHAT.canonical(item) == CHAT.canonical(Item(bytes(raw)))
    assert CHAT.arrange([item]) == [item]
    CHAT.arrange([item, item])
    CHAT.replace_output(item, "stub")


@pytest.mark.parametrize("raw", [b"\xff", b"", b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b'{"v":NaN}', b"[1]"])
def test_bytes_only_a_provider_understands_are_opaque(raw: bytes) -> None:
    """Broken or extreme JSON is kept and never an error."""
    assert CHAT.view(Item(raw)).kind is ItemKind.OPAQUE
    assert CHAT.canonical(Item(raw)) == raw


@pytest.mark.parametrize(
    ("raw", "stub"),
    [
        (
            b'{"z": 1.0, "role":"tool","content":[{"type":"text","text":"long"}],"tool_call_id":"c","k":"\\u00e9"}',
            b'{"z":1.0,"role":"tool","content":"say \\"x\\"","tool_call_id":"c","k":"\\u00e9"}',
        ),
        (
            b'{"role":"function","name":"f","content":"half \\ud83d"}',
            b'{"role":"function","name":"f","content":"say \\"x\\""}',
        ),
        (b'{"role":"tool","tool_call_id":"c"}', b'{"role":"tool","tool_call_id":"c","content":"say \\"x\\""}'),
    ],
)
def test_a_stub_changes_the_payload_and_nothing_else(raw: bytes, stub: bytes) -> None:
    """Unknown fields of an output, their order and spelling, survive its payload."""
    assert CHAT.replace_output(Item(raw), 'say "x"') == Item(stub)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"role":"user","content":"x"}',
        b'{"role":"assistant","content":"x"}',
        b'{"role":"system","content":"x"}',
        b'{"role":"critic","content":"x"}',
        b'{"role":"tool","content":"x","\\ud83d":1}',
    ],
)
def test_only_outputs_that_can_be_written_again_are_stubbed(raw: bytes) -> None:
    """A message keeps its content, and so does an output with a field whose name is half a character."""
    assert CHAT.replace_output(Item(raw), "stub") is None
