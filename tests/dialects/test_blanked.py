"""What goes out in place of an item whose words must not: the same calls and answers, and none of the words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from threadkeep.dialects import find_dialect

SECRET = "kadarkuti"
GONE = "(erased)"

BLANKED: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("chat", {"role": "user", "content": SECRET, "name": SECRET}, {"role": "user", "content": GONE}),
    ("chat", {"role": "assistant", "content": None, "refusal": SECRET}, {"role": "assistant", "content": GONE}),
    (
        "chat",
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": SECRET}]},
        {"role": "tool", "tool_call_id": "c1", "content": GONE},
    ),
    (
        "chat",
        {
            "role": "assistant",
            "content": SECRET,
            "reasoning_content": SECRET,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": SECRET}},
                {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": SECRET}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
                {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": ""}},
            ],
        },
    ),
    (
        "chat",
        {"role": "assistant", "content": SECRET, "function_call": {"name": "bash", "arguments": SECRET}},
        {"role": "assistant", "content": None, "function_call": {"name": "bash", "arguments": "{}"}},
    ),
    (
        "messages",
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": SECRET, "signature": "s"},
                {"type": "text", "text": SECRET},
                {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": SECRET}},
            ],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {}}]},
    ),
    (
        "messages",
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": SECRET}, {"type": "text", "text": SECRET}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": GONE}]},
    ),
    ("messages", {"role": "user", "content": SECRET}, {"role": "user", "content": [{"type": "text", "text": GONE}]}),
    (
        "responses",
        {"role": "user", "content": SECRET},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": GONE}]},
    ),
    (
        "responses",
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": SECRET}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": GONE}]},
    ),
    (
        "responses",
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": SECRET},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
    ),
    (
        "responses",
        {"type": "custom_tool_call_output", "call_id": "c1", "output": SECRET},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": GONE},
    ),
    ("responses", {"type": "reasoning", "summary": [], "encrypted_content": SECRET}, None),
    ("responses", {"type": "local_shell_call", "call_id": "c1", "action": {"command": [SECRET]}}, None),
    ("responses", {"type": "local_shell_call_output", "call_id": "c1", "output": SECRET}, None),
]


@pytest.mark.parametrize(("wire", "item", "expected"), BLANKED)
def test_an_item_without_its_words_is_half_of_the_same_calls(
    wire: str, item: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    """Role, call ids and names stay; text, arguments, thinking and whatever else is said do not."""
    dialect = find_dialect(wire)
    blank = dialect.blank_item(dialect.parse(item), GONE)
    assert (json.loads(blank.raw) if blank else None) == expected
    if blank is not None:
        before, after = dialect.view(dialect.parse(item)), dialect.view(blank)
        assert (after.role, after.opens, after.closes) == (before.role, before.opens, before.closes)
