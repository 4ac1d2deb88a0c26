"""The canonical form: one for all spellings of a message, another for every other message.

Of one dialect alone: the spellings that mean the same are the Messages API's; the other files test_*_canonical.py have others'.
"""

from __future__ import annotations

import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.dialects import MESSAGES
from threadkeep.dialects.messages.markers import remove_markers, set_marker
from threadkeep.items import Item

FIXTURES = Path(__file__).parent / "fixtures" / "messages"
RECORDED: list[dict[str, Any]] = [
    message for path in sorted(FIXTURES.glob("*.json")) for message in json.loads(path.read_bytes()).get("messages", [])
]


def canonical(value: object) -> bytes:
    return MESSAGES.canonical(Item(json.dumps(value).encode()))


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def returned(content: object, **more: object) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content, **more}]}


def thought(**fields: object) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s", **fields}]}


def _shuffled(value: object, order: random.Random) -> object:
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: _shuffled(value[name], order) for name in names}
    return [_shuffled(each, order) for each in value] if isinstance(value, list) else value


def _respelled(value: dict[str, Any], order: random.Random) -> object:
    """The same message as another client, or the same client later, would send it."""
    message = deepcopy(value)
    content = message.get("content")
    if isinstance(content, str):
        content = message["content"] = [{"type": "text", "text": content}]
    for block in content or []:
        if order.random() < 0.5:
            block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            block["content"] = [{**part, "cache_control": {"type": "ephemeral"}} for part in block["content"]]
        elif block["type"] == "tool_result" and order.random() < 0.5:
            block["content"] = [{"type": "text", "text": block["content"]}]
    message["id"] = f"msg_{order.random()}"
    if message["role"] == "assistant":
        message |= {
            "type": "message",
            "model": "m",
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"output_tokens": 3},
        }
    return _shuffled(message, order)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(RECORDED), st.randoms(use_true_random=False))
def test_every_spelling_of_a_message_has_one_canonical_form(message: dict[str, Any], order: random.Random) -> None:
    """Key order, ids, what an answer carries around its content, cache markers, a string or one text: none of them is content."""
    assert canonical(_respelled(message, order)) == canonical(message)


def test_a_users_text_is_the_same_as_string_and_as_marked_block() -> None:
    """A message is a list while it is last and carries the marker, and a string once it is older."""
    block = {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}
    assert canonical({"role": "user", "content": [block]}) == canonical(said("Hello"))


@pytest.mark.parametrize("message", RECORDED)
def test_setting_and_removing_markers_leaves_the_canonical_form(message: dict[str, Any]) -> None:
    """A marker is never content."""
    item = Item(json.dumps(message).encode())
    assert MESSAGES.canonical(set_marker(item)) == MESSAGES.canonical(remove_markers(item)) == MESSAGES.canonical(item)


DISTINCT: list[dict[str, Any]] = [
    said("port 8080"),
    said("port 8081"),
    said("line"),
    said("line\n"),
    {"role": "assistant", "content": "line"},
    {"role": "system", "content": "line"},
    {"role": "system", "content": "line", "output_config": {"effort": "low"}},
    {"role": "user", "content": [{"type": "text", "text": "line"}, {"type": "text", "text": ""}]},
    {"role": "user", "content": [{"type": "text", "text": "line", "citations": [{"type": "char_location"}]}]},
    returned("x"),
    returned("x", is_error=True),
    returned("x", tool_use_id="b"),
    returned([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]),
    returned(None),
    thought(),
    thought(signature="other"),
    thought(thinking="other"),
    {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "a"}]},
    {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "b"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {"cache_control": 1}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {"cache_control": 2}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {"v": 1}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {"v": True}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {"v": 1.5}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {"v": "1.5"}}]},
    {"role": "assistant", "content": [{"type": "compaction", "content": "c", "encrypted_content": "a"}]},
    {"role": "assistant", "content": [{"type": "compaction", "content": "c", "encrypted_content": "b"}]},
    {"role": "user", "content": None},
    {"role": "user"},
    {"id": "msg_1"},
    {"id": "msg_2"},
    {"type": "message"},
    {},
]


def test_two_messages_never_share_a_canonical_form() -> None:
    """A changed character, id of a call, signature or value is another history."""
    assert len({canonical(message) for message in DISTINCT}) == len(DISTINCT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"0.1000000000000000055", b"0.1"),
        (b"1e400", b"1e401"),
        (b"123456789012345678901234567890", b"123456789012345678901234567891"),
        (rb'"\ud83d"', rb'"\ud83e"'),
        (rb'"\ud83d"', rb'"\ufffd"'),
        (rb'"\ud83d"', rb'"\\ud83d"'),
        (rb'"\ud83d"', '"\ufdd0d83d"'.encode()),
    ],
)
def test_values_no_float_and_no_utf_8_can_hold_stay_apart(one: bytes, other: bytes) -> None:
    """Numbers that a float would make one, and halves of characters, are still two."""
    template = b'{"role":"assistant","content":[{"type":"tool_use","input":%b}]}'
    assert MESSAGES.canonical(Item(template % one)) != MESSAGES.canonical(Item(template % other))


def test_half_an_emoji_does_not_freeze_a_message_into_one_spelling() -> None:
    """The marker may move off such a message, and hex digits be written either way, without a new history."""
    marked = rb'{"role":"user","content":[{"type":"text","text":"x \ud83d","cache_control":{"type":"ephemeral"}}]}'
    assert MESSAGES.canonical(Item(marked)) == MESSAGES.canonical(Item(rb'{"content":"x \uD83D","role":"user"}'))
