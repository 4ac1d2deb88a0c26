"""What translators put into a chat message for the provider behind them alone."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.chat.views import read_role
from threadkeep.dialects.content_parts import is_thought
from threadkeep.dialects.raw_json import join_list, join_object, read_value, split_list, split_object
from threadkeep.items import Item

# Signed or encrypted by whoever served the model. Thoughts in plain text (`reasoning_content`) are bound to nobody.
FIELDS: Final = frozenset({"reasoning_details", "thinking_blocks"})
SPEECH: Final = ("content", "tool_calls", "function_call", "refusal", "audio")
NOTHING: Final = frozenset({b"null", b"[]", b'""'})


def remove_sealed(item: Item) -> Item | None:
    """Return an assistant's message without them; the same item where it has none, None where it says nothing else."""
    fields = split_object(item.raw) if read_role(item) == "assistant" else None
    if fields is None:
        return item
    kept = {name: raw for name, raw in fields.items() if name not in FIELDS}
    parts = split_list(kept.get("content", b"null"))
    spoken = [part for part in parts or () if not is_thought(read_value(part))]
    if parts is not None and len(spoken) < len(parts):
        kept["content"] = join_list(spoken)
    elif len(kept) == len(fields):
        return item
    says_something = any(kept.get(name, b"null") not in NOTHING for name in SPEECH)
    return Item(join_object(kept)) if says_something else None
