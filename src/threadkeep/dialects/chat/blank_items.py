"""A chat message without its words."""

from __future__ import annotations

from threadkeep.dialects.chat.views import OUTPUTS
from threadkeep.dialects.raw_json import Json

EMPTY_ARGUMENTS = "{}"


def blank_fields(fields: Json, text: str) -> Json:
    """Return a message of the same role that makes the same calls, or answers the same one, and says nothing but `text`."""
    role = fields.get("role")
    if role in OUTPUTS:
        kept = {name: fields[name] for name in ("tool_call_id", "name") if isinstance(fields.get(name), str)}
        return {"role": role, **kept, "content": text}
    calls = fields.get("tool_calls") if role == "assistant" else None
    made = [_blank_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if made:
        return {"role": role, "content": None, "tool_calls": made}
    called = fields.get("function_call") if role == "assistant" else None
    if isinstance(called, dict):
        return {"role": role, "content": None, "function_call": {"name": called.get("name"), "arguments": EMPTY_ARGUMENTS}}
    return {"role": role, "content": text}


def _blank_call(call: Json) -> Json:
    kind = "custom" if call.get("type") == "custom" else "function"
    called = call.get(kind)
    name = called.get("name") if isinstance(called, dict) else None
    payload = {"input": ""} if kind == "custom" else {"arguments": EMPTY_ARGUMENTS}
    return {"id": call.get("id"), "type": kind, kind: {"name": name, **payload}}
