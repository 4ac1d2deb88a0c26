"""Items and requests of the OpenAI Responses API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from threadkeep.dialects.base import Dialect, Wire, compose_request
from threadkeep.dialects.openai_parts import find_part_types
from threadkeep.dialects.raw_json import Json, join_object, read_object, split_object
from threadkeep.dialects.responses import continuation, replies
from threadkeep.dialects.responses.api import ResponsesApi
from threadkeep.dialects.responses.item_views import NAMED_BY_ID, read_kind, read_view
from threadkeep.dialects.values import ABORTED, ERASED_NAME, UNREADABLE, Request
from threadkeep.items import Item, View

TEXT_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
# Codex adds the last one to what it sends back: a history built by response ids is without it, and after a reconnect it is there.
VOLATILE: Final = frozenset({"id", "status", "cache_control", "internal_chat_message_metadata_passthrough"})
# Written by a model's provider for itself. Reasoning is dropped whole; a compaction stands for a history, which must be said.
SEALED: Final = frozenset({"reasoning", "compaction", "context_compaction", "compaction_summary"})

# What no other dialect has.
OWN_TYPES: Final = frozenset(
    {
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
        "local_shell_call",
        "item_reference",
        "web_search_call",
    }
)
OWN_PARTS: Final = frozenset({"input_text", "output_text", "input_image", "input_file", "refusal"})


# What calls for an output of each type; other outputs insist on what was called.
ERASED_CALLS: Final[dict[str, Json]] = {
    "function_call_output": {"type": "function_call", "name": ERASED_NAME, "arguments": "{}"},
    "custom_tool_call_output": {"type": "custom_tool_call", "name": ERASED_NAME, "input": ""},
}


class ResponsesDialect(Dialect):
    """The Responses wire language; see `threadkeep.dialects.base.Dialect` for the contract."""

    name = "responses"
    history_field = "input"
    wire: ClassVar[Wire] = replies
    api = ResponsesApi()
    takes_instructions_anywhere = True
    held_elsewhere = continuation.HELD_ELSEWHERE
    sealed_marks = (b"reasoning", b"compaction")

    def read_view(self, fields: Json) -> View:
        return read_view(fields)

    def normalise(self, fields: Json) -> Json:
        return _normalise(fields)

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        fields: dict[str, object] = {"instructions": system, "tools": list(tools), "prompt_cache_key": cache_key}
        return compose_request(fields)

    def read_history(self, history: bytes) -> list[Item] | None:
        return continuation.read_input(history)

    def recognises(self, item: Item) -> bool:
        fields = read_object(item.raw) or {}
        kinds = find_part_types(fields.get("content"))
        if read_kind(fields) in OWN_TYPES or OWN_PARTS & kinds:
            return True
        return not kinds and (fields.get("role") == "developer" or fields.get("type") == "message")

    def make_user_message(self, text: str) -> Item:
        return self.parse({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    def replace_output(self, item: Item, text: str) -> Item | None:
        fields = split_object(item.raw) if read_kind(read_object(item.raw) or {}) in TEXT_OUTPUTS else None
        return None if fields is None else Item(join_object({**fields, "output": msgspec.json.encode(text)}))

    def abort_calls(self, item: Item, calls: Collection[str]) -> list[Item]:
        call = read_object(item.raw) or {}
        return [self.parse(_aborted(read_kind(call), call_id)) for call_id in self.view(item).opens if call_id in calls]

    def make_erased_call(self, outputs: Sequence[tuple[str, Item]]) -> Item | None:
        call_id, output = outputs[0]
        form = ERASED_CALLS.get(read_kind(read_object(output.raw) or {}))
        return None if form is None else self.parse({**form, "call_id": call_id})

    def remove_sealed(self, item: Item) -> Item | None:
        kind = read_kind(read_object(item.raw) or {})
        if kind not in SEALED:
            return item
        return None if kind == "reasoning" else self.make_user_message(UNREADABLE)

    def blank_item(self, item: Item, text: str) -> Item | None:
        made = blank_fields(read_object(item.raw) or {}, text)
        return None if made is None else self.parse(made)


RESPONSES: Final = ResponsesDialect()


def _normalise(fields: Json) -> Json:
    """Return an item without what clients and providers add or leave out at will."""
    named = "call_id" not in fields and read_kind(fields) in NAMED_BY_ID
    kept = {name: value for name, value in fields.items() if name not in VOLATILE or (named and name == "id")}
    if kept.get("type") == "reasoning" and not kept.get("content"):
        kept.pop("content", None)
    if "role" in kept:
        kept.setdefault("type", "message")
        kept["content"] = _canonical_content(kept.get("content"), role=kept["role"])
    return kept


def _canonical_content(content: object, *, role: object) -> object:
    """Return message content as a list of parts without what providers add or leave out at will."""
    if isinstance(content, str):
        return [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    return [_canonical_part(part) for part in content] if isinstance(content, list) else content


def _canonical_part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name != "cache_control" and not _is_filler(name, value)}


def _is_filler(name: str, value: object) -> bool:
    return name in ("annotations", "logprobs") and value == []


def _aborted(kind: str, call_id: str) -> Json:
    """Return the output of a call that was broken off, in the form its type has."""
    match kind:
        case "mcp_approval_request":
            return {"type": "mcp_approval_response", "approval_request_id": call_id, "approve": False}
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": call_id, "output": ABORTED}
        case "tool_search_call":
            return {
                "type": "tool_search_output",
                "call_id": call_id,
                "status": "completed",
                "execution": "client",
                "tools": [],
            }
        case "shell_call":
            outcome = {"type": "exit", "exit_code": 1}
            ended = {"stdout": "", "stderr": ABORTED, "outcome": outcome}
            return {"type": "shell_call_output", "call_id": call_id, "output": [ended]}
        case "apply_patch_call":
            return {"type": "apply_patch_call_output", "call_id": call_id, "status": "failed", "output": ABORTED}
        case _:
            return {"type": f"{kind}_output", "call_id": call_id, "output": ABORTED}


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
