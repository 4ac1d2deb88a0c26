"""OpenAI's Responses endpoint: this module is the dialect's `Api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.api import BoundThinking, CacheMarkers, Continuation, MessageMerger, PromptCache
from threadkeep.dialects.prompt_cache import OpenAIPromptCache
from threadkeep.dialects.raw_json import read_object, read_value
from threadkeep.dialects.request_parts import copy_fields, read_body_target
from threadkeep.dialects.responses import continuation as resumed
from threadkeep.dialects.responses import user_messages
from threadkeep.dialects.responses.hidden_tool import ResponsesHiddenTool
from threadkeep.dialects.responses.item_views import read_view
from threadkeep.dialects.values import Endpoints, Request
from threadkeep.items import Item

endpoints: Final = Endpoints(provider="openai", turn="/responses", others=("/responses/compact",))
read_target = read_body_target
head_fields: Final = ("model", "instructions", "tools")
thinking: BoundThinking | None = None
cache_markers: CacheMarkers | None = None
prompt_cache: PromptCache | None = OpenAIPromptCache(text_kind=b"input_text")
merger: MessageMerger | None = user_messages
continuation: Continuation | None = resumed
compaction_headers: Final[Mapping[str, str]] = {}
make_hidden_tool = ResponsesHiddenTool

DELIVERY: Final = ("model", "stream", "store", "max_output_tokens")
# Codex asks a provider that compacts by itself with an item of this type behind the history.
COMPACTION_TRIGGER: Final = "compaction_trigger"


def add_instructions(request: Request, text: str) -> Request:
    """Add a developer's message: some providers accept `instructions` from known clients only as those wrote them."""
    message = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}
    return replace(request, head=(*request.head, Item(msgspec.json.encode(message))))


def find_instructions(request: Request) -> str:
    instructions = read_value(request.fields.get("instructions", b"null"))
    if isinstance(instructions, str) and instructions:
        return instructions
    return next((text for item in request.head if (text := read_view(read_object(item.raw) or {}).text)), "")


def is_side_request(request: Request, *, path: str) -> bool:
    return path in endpoints.others or (
        bool(request.items) and (read_object(request.items[-1].raw) or {}).get("type") == COMPACTION_TRIGGER
    )


def copy_delivery(request: Request, client: Request) -> Request:
    return copy_fields(request, client, names=DELIVERY)


def headers_for(items: Sequence[Item]) -> Mapping[str, str]:
    return {}
