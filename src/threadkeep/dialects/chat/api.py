"""OpenAI's Chat Completions endpoint, and the servers that copy it: this module is the dialect's `Api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.api import BoundThinking, CacheMarkers, Continuation, MessageMerger, PromptCache
from threadkeep.dialects.chat.hidden_tool import ChatHiddenTool
from threadkeep.dialects.chat.item_views import read_view
from threadkeep.dialects.prompt_cache import OpenAIPromptCache
from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_object, read_value, split_list, split_object
from threadkeep.dialects.request_parts import copy_fields, read_body_target
from threadkeep.dialects.values import Endpoints, Request
from threadkeep.items import Item

endpoints: Final = Endpoints(provider="openai", turn="/chat/completions", id_prefix="chatcmpl-")
read_target = read_body_target
head_fields: Final = ("model", "tools")
thinking: BoundThinking | None = None
cache_markers: CacheMarkers | None = None
prompt_cache: PromptCache | None = OpenAIPromptCache(text_kind=b"text")
merger: MessageMerger | None = None
continuation: Continuation | None = None
compaction_headers: Final[Mapping[str, str]] = {}
make_hidden_tool = ChatHiddenTool

DELIVERY: Final = ("model", "stream", "store", "max_tokens", "max_completion_tokens")
SEPARATOR: Final = "\n\n"


def add_instructions(request: Request, text: str) -> Request:
    """Add `text` to the last message of the head.

    Templates of many models allow one message in the system's role, and only at the very beginning.
    """
    longer = _append_text(request.head[-1], text) if request.head else None
    if longer is not None:
        return replace(request, head=(*request.head[:-1], longer))
    own = Item(msgspec.json.encode({"role": "system", "content": text}))
    return replace(request, head=(*request.head, own))


def find_instructions(request: Request) -> str:
    return next((text for item in request.head if (text := read_view(read_object(item.raw) or {}).text)), "")


def is_side_request(request: Request, *, path: str) -> bool:
    return False


def copy_delivery(request: Request, client: Request) -> Request:
    return copy_fields(request, client, names=DELIVERY)


def headers_for(items: Sequence[Item]) -> Mapping[str, str]:
    return {}


def _append_text(item: Item, text: str) -> Item | None:
    """Return a message with `text` at its end; None where its content is of no form that takes one."""
    fields = split_object(item.raw) or {}
    content = fields.get("content", b"null")
    own = read_value(content)
    if isinstance(own, str):
        return Item(join_object({**fields, "content": msgspec.json.encode(f"{own}{SEPARATOR}{text}")}))
    parts = split_list(content)
    if parts is None:
        return None
    return Item(join_object({**fields, "content": join_list([*parts, make_text_part(msgspec.json.encode(text))])}))
