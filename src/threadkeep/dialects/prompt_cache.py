"""OpenAI's prompt cache: keys, and the explicit breakpoints that models from GPT-5.6 on match a prefix by.

Such a model finds a conversation that grows by itself. It does not find the head in front of a new checkpoint, or the checkpoint
in front of a fork, unless their ends are marked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_object, split_list, split_object
from threadkeep.dialects.values import Request
from threadkeep.items import Item

KEY: Final = "prompt_cache_key"
# The second is how some clients spell it.
KEYS: Final = (KEY, "promptCacheKey")
BREAKPOINT: Final = "prompt_cache_breakpoint"
EXPLICIT: Final = b'{"mode":"explicit"}'
FROM_VERSION: Final = (5, 6)
# ChatGPT's own endpoint refuses fields that it does not know, and this is one.
SUBSCRIPTION_HEADER: Final = "chatgpt-account-id"
SPEAKERS: Final = frozenset({"user", "system", "developer"})

_version = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIPromptCache:
    """See `threadkeep.dialects.api.PromptCache`. `text_kind` is the type of a user's text part; only such parts are marked."""

    text_kind: bytes

    def set_key(self, request: Request, key: str) -> Request:
        if any(name in request.fields for name in KEYS):
            return request
        return replace(request, fields={**request.fields, KEY: msgspec.json.encode(key)})

    def takes_breakpoints(self, model: str, headers: Mapping[str, str]) -> bool:
        found = _version.match(model)
        return found is not None and (int(found[1]), int(found[2] or 0)) >= FROM_VERSION and SUBSCRIPTION_HEADER not in headers

    def has_breakpoint(self, raw: bytes) -> bool:
        return BREAKPOINT.encode() in raw

    def set_breakpoint(self, item: Item) -> Item | None:
        fields = split_object(item.raw) or {}
        if (read_object(item.raw) or {}).get("role") not in SPEAKERS:
            return None
        content = fields.get("content", b"null")
        parts = [make_text_part(content, kind=self.text_kind)] if content.startswith(b'"') else split_list(content) or []
        last = split_object(parts[-1]) if parts else None
        if last is None or last.get("type") != b'"' + self.text_kind + b'"':
            return None
        marked = join_object({**last, BREAKPOINT: EXPLICIT})
        return Item(join_object({**fields, "content": join_list([*parts[:-1], marked])}))
