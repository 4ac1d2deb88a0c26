"""A message of the Messages API without its words."""

from __future__ import annotations

from threadkeep.dialects.messages.blocks import list_blocks, read_text_field
from threadkeep.dialects.raw_json import Json


def blank_fields(fields: Json, text: str) -> Json:
    """Return a message of the same role that makes and answers the same calls, and says nothing but `text`.

    Thinking goes: it is words too, and signed for what it was.
    """
    blocks = list_blocks(fields.get("content")) or []
    kept = [made for block in blocks if (made := _paired(block, text)) is not None]
    return {"role": fields.get("role"), "content": kept or [{"type": "text", "text": text}]}


def _paired(block: Json, text: str) -> Json | None:
    """Return what is left of half of a call; None for any other block, and for calls of the provider's own tools."""
    match read_text_field(block, "type"):
        case "tool_use":
            return {"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "input": {}}
        case "tool_result":
            return {"type": "tool_result", "tool_use_id": block.get("tool_use_id"), "content": text}
        case _:
            return None
