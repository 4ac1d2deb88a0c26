"""Anthropic's API: this module is the dialect's `Api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.api import BoundThinking, CacheMarkers, Continuation, MessageMerger, PromptCache
from threadkeep.dialects.messages import markers
from threadkeep.dialects.messages import thinking_blocks as bound_thinking
from threadkeep.dialects.messages.betas import BETA_HEADER, COMPACTION_BETA
from threadkeep.dialects.messages.hidden_tool import MessagesHiddenTool
from threadkeep.dialects.raw_json import join_list, make_text_part, read_value, split_list
from threadkeep.dialects.request_parts import copy_fields, read_body_target
from threadkeep.dialects.values import Endpoints, Request
from threadkeep.items import Item

endpoints: Final = Endpoints(
    provider="anthropic",
    turn="/messages",
    others=("/messages/count_tokens",),
    models="/models/{model}",
    is_mount_added=True,
    key_header="x-api-key",
)
read_target = read_body_target
head_fields: Final = ("model", "system", "tools")
thinking: BoundThinking | None = bound_thinking
cache_markers: CacheMarkers | None = markers
prompt_cache: PromptCache | None = None
merger: MessageMerger | None = None
continuation: Continuation | None = None
compaction_headers: Final[Mapping[str, str]] = {BETA_HEADER: COMPACTION_BETA}
make_hidden_tool = MessagesHiddenTool

DELIVERY: Final = ("model", "stream", "max_tokens")
# The API answers no request without a bound.
MAX_TOKENS: Final = b"8192"
SEPARATOR: Final = "\n\n"


def add_instructions(request: Request, text: str) -> Request:
    """Add a block to `system`; the client's own cache markers stay where they are."""
    system = request.fields.get("system", b"null")
    own = read_value(system)
    if isinstance(own, str):
        longer = msgspec.json.encode(f"{own}{SEPARATOR}{text}")
    else:
        longer = join_list([*(split_list(system) or ()), make_text_part(msgspec.json.encode(text))])
    return replace(request, fields={**request.fields, "system": longer})


def find_instructions(request: Request) -> str:
    system = read_value(request.fields.get("system", b"null"))
    if isinstance(system, str):
        return system
    texts = (block.get("text") for block in system if isinstance(block, dict)) if isinstance(system, list) else ()
    return next((text for text in texts if isinstance(text, str)), "")


def is_side_request(request: Request, *, path: str) -> bool:
    return path in endpoints.others


def copy_delivery(request: Request, client: Request) -> Request:
    copied = copy_fields(request, client, names=DELIVERY)
    return replace(copied, fields={"max_tokens": MAX_TOKENS, **copied.fields})


def headers_for(items: Sequence[Item]) -> Mapping[str, str]:
    """Name the beta without which the provider refuses the block that it put itself in place of a history."""
    return compaction_headers if any(b'"compaction"' in item.raw for item in items) else {}
