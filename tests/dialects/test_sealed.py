"""What only the account it was issued to may hand back can be taken out, and nothing else goes with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from threadkeep.dialects import find_dialect
from threadkeep.items import Item

Json = dict[str, Any]

CALLED = {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
TEXT = {"type": "text", "text": "so"}


def item(value: Json) -> Item:
    return Item(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("wire", "value", "left"),
    [
        ("responses", {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}, None),
        ("responses", {"type": "reasoning", "id": "rs", "summary": []}, None),
        ("messages", {"role": "assistant", "content": [THOUGHT, TEXT], "x": 1}, {"role": "assistant", "content": [TEXT], "x": 1}),
        ("chat", {"role": "assistant", "content": "so", "reasoning_details": [{}]}, {"role": "assistant", "content": "so"}),
        (
            "chat",
            {"role": "assistant", "content": None, "thinking_blocks": [THOUGHT], **CALLED},
            {"role": "assistant", "content": None, **CALLED},
        ),
        ("chat", {"role": "assistant", "content": [THOUGHT, TEXT]}, {"role": "assistant", "content": [TEXT]}),
        ("chat", {"role": "assistant", "content": None, "reasoning_details": [{}]}, None),
        (
            "gemini",
            {"role": "model", "parts": [{"text": "so", "thoughtSignature": "s"}], "x": 1},
            {"role": "model", "parts": [{"text": "so"}], "x": 1},
        ),
        ("gemini", {"role": "model", "parts": [{"text": "hm", "thought": True, "thought_signature": "s"}]}, None),
        ("gemini", {"role": "model", "parts": [{"text": "", "thoughtSignature": "s"}]}, None),
        (
            "gemini",
            {"role": "model", "parts": [{"functionCall": {"name": "f"}, "thoughtSignature": "s"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f"}, "thoughtSignature": "skip_thought_signature_validator"}]},
        ),
    ],
)
def test_what_is_sealed_is_taken_out(wire: str, value: Json, left: Json | None) -> None:
    """Everything beside it keeps its place; an item that was nothing else is gone."""
    found = find_dialect(wire).remove_sealed(item(value))
    assert (None if found is None else json.loads(found.raw)) == left


@pytest.mark.parametrize("kind", ["compaction", "context_compaction", "compaction_summary"])
def test_a_providers_compaction_is_said_to_be_unreadable(kind: str) -> None:
    """It stands for a history, so something must stand for it."""
    found = find_dialect("responses").remove_sealed(item({"type": kind, "encrypted_content": "x"}))
    assert found is not None
    assert b"cannot be read here" in found.raw


@pytest.mark.parametrize("wire", ["responses", "chat", "messages", "gemini"])
@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "content": "thinking about reasoning"},
        {"role": "assistant", "content": "a compaction", "reasoning_content": "plain"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "user", "content": []},
        {"role": "model", "parts": [{"text": "no thoughtSignature"}]},
        {"unknown": True},
    ],
)
def test_an_item_without_a_seal_is_the_very_same(wire: str, value: Json) -> None:
    """Not a copy: whoever asks can tell that nothing was taken out."""
    given = item(value)
    assert find_dialect(wire).remove_sealed(given) is given


@pytest.mark.parametrize("wire", ["responses", "chat", "messages", "gemini"])
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b'{"role":"assistant","content":7}'])
def test_bytes_nobody_can_read_are_left_alone(wire: str, raw: bytes) -> None:
    """What cannot be read is not taken apart."""
    given = Item(raw)
    assert find_dialect(wire).remove_sealed(given) is given
