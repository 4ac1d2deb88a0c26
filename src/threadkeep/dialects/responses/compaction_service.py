"""What a server of the Responses API does when a client asks it to compact: this module is the dialect's `CompactionService`."""

from __future__ import annotations

from typing import Final

from msgspec.json import encode

from threadkeep.dialects.raw_json import Json, join_list, join_object, read_fields, read_object, read_value
from threadkeep.dialects.responses.compaction import TRIGGER, TYPES
from threadkeep.dialects.responses.replies import count_usage
from threadkeep.dialects.sse import EventReader
from threadkeep.dialects.translation import Usage
from threadkeep.dialects.values import Request

PATH: Final = "/responses/compact"
FIRST_ITEM: Final = frozenset({"response.output_item.added", "response.output_item.done"})
ENDINGS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


def find_asked(request: Request, *, path: str) -> bytes | None:
    items = request.items
    if items and (read_object(items[-1].raw) or {}).get("type") == TRIGGER:
        items = items[:-1]
    elif path != PATH:
        return None
    history = join_list(item.raw for item in (*request.head, *items))
    return join_object({**request.fields, "input": history}) if items else None


def has_begun(stream: bytes) -> bool | None:
    for event in map(read_fields, EventReader().feed(stream)):
        kind = event.text("type") if event is not None else None
        if event is None or kind in ENDINGS:
            return False
        item = event.inner("item").text("type") if kind in FIRST_ITEM else None
        if item is not None and item != "reasoning":
            return item in TYPES
    return None


def render_answer(request: Request, *, path: str, name: str, created_at: int) -> bytes:
    label = name.rpartition(":")[2]
    item: Json = {"type": "compaction", "id": f"cmp_{label}", "encrypted_content": name}
    answer: Json = {"id": f"resp_{label}", "created_at": created_at, "usage": count_usage(Usage()), "output": [item]}
    if path == PATH:
        return encode(answer | {"object": "response.compaction"})
    model = read_value(request.fields.get("model", b"null"))
    begun = answer | {"object": "response", "status": "in_progress", "model": model, "output": [], "usage": None}
    ended = begun | {"status": "completed", "output": [item], "usage": count_usage(Usage())}
    if request.fields.get("stream", b"false") != b"true":
        return encode(ended)
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": ended},
    ]
    numbered = (event | {"sequence_number": number} for number, event in enumerate(events))
    return b"".join(b"event: " + str(each["type"]).encode() + b"\ndata: " + encode(each) + b"\n\n" for each in numbered)
