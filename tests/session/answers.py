"""Answers of a model that calls several tools at once, in each dialect."""

from __future__ import annotations

import json
from typing import Any

from threadkeep.dialects import find_dialect
from threadkeep.items import Item
from threadkeep.testing.scripted_model import Says, says

DIALECTS = ("responses", "chat", "messages", "gemini")


def calling(dialect: str, *calls: tuple[str, str, dict[str, Any]]) -> Says:
    """One answer that makes these calls: an id, a tool, its arguments."""
    language = find_dialect(dialect)
    made: list[dict[str, Any]]
    match dialect:
        case "responses":
            made = [
                {"type": "function_call", "call_id": call_id, "name": tool, "arguments": json.dumps(arguments)}
                for call_id, tool, arguments in calls
            ]
        case "chat":
            listed = [
                {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
                for call_id, tool, arguments in calls
            ]
            made = [{"role": "assistant", "content": None, "tool_calls": listed}]
        case "gemini":
            called = ({"id": call_id, "name": tool, "args": arguments} for call_id, tool, arguments in calls)
            parts: list[dict[str, Any]] = [{"functionCall": call} for call in called]
            parts[0]["thoughtSignature"] = "skip_thought_signature_validator"
            made = [{"role": "model", "parts": parts}]
        case _:
            uses = [{"type": "tool_use", "id": call_id, "name": tool, "input": arguments} for call_id, tool, arguments in calls]
            made = [{"role": "assistant", "content": uses}]
    items: tuple[Item, ...] = tuple(language.parse(item) for item in made)
    return says("", items=items, called_tools=True)


def outputs_of(dialect: str, window: list[dict[str, Any]]) -> dict[str, str]:
    """What tools returned in a window, by call."""
    match dialect:
        case "responses":
            found = [(item["call_id"], item["output"]) for item in window if item.get("type") == "function_call_output"]
        case "chat":
            found = [(item["tool_call_id"], item["content"]) for item in window if item["role"] == "tool"]
        case "gemini":
            answers = [part["functionResponse"] for item in window for part in item["parts"] if "functionResponse" in part]
            found = [(answer["id"], *answer["response"].values()) for answer in answers]
        case _:
            blocks = [block for item in window for block in item["content"] if isinstance(block, dict)]
            found = [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]
    return dict(found)
