"""An item of the Responses API without its words."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.raw_json import Json
from threadkeep.dialects.responses.views import read_kind

# What a call carries, by its type; of other calls nothing is left, and of their outputs neither.
CALLS: Final[dict[str, Json]] = {"function_call": {"arguments": "{}"}, "custom_tool_call": {"input": ""}}
OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})


def blank_fields(fields: Json, text: str) -> Json | None:
    """Return an item of the same form that makes or answers the same call, or says nothing but `text`; None for any other."""
    kind = read_kind(fields)
    if kind == "message":
        part = "output_text" if fields.get("role") == "assistant" else "input_text"
        return {"type": kind, "role": fields.get("role"), "content": [{"type": part, "text": text}]}
    if kind in CALLS:
        return {"type": kind, "call_id": fields.get("call_id"), "name": fields.get("name"), **CALLS[kind]}
    return {"type": kind, "call_id": fields.get("call_id"), "output": text} if kind in OUTPUTS else None
