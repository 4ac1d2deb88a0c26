"""Explicit breakpoints for OpenAI's prompt cache, which from GPT-5.6 on matches a prefix only where one was set.

Such a model finds a conversation that grows by itself. What it cannot find is the head in front of a new checkpoint, or the
checkpoint in front of a fork: so the end of both is marked, where that is switched on. A client that sets any itself is left
alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from threadkeep.dialects import Request
from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_object, split_list, split_object
from threadkeep.gateway.rewriting import Placed
from threadkeep.items import Item

FIELD: Final = "prompt_cache_breakpoint"
SIGN: Final = FIELD.encode()
EXPLICIT: Final = b'{"mode":"explicit"}'
FROM_VERSION: Final = (5, 6)
# ChatGPT's own endpoint knows no such field, and refuses what it does not know.
SUBSCRIPTION_HEADER: Final = "chatgpt-account-id"
# In each dialect: how a part that can be marked calls itself. What a model said has parts of another kind.
PARTS: Final[Mapping[str, bytes]] = {"responses": b"input_text", "chat": b"text"}
SPEAKERS: Final = frozenset({"user", "system", "developer"})

_version = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")


def are_known(model: str, headers: Mapping[str, str], *, dialect: str) -> bool:
    """Whether the provider of this model takes breakpoints, as far as a request tells."""
    found = _version.match(model)
    is_late = found is not None and (int(found[1]), int(found[2] or 0)) >= FROM_VERSION
    return is_late and dialect in PARTS and SUBSCRIPTION_HEADER not in headers


def pointed(window: Sequence[Placed], request: Request, *, dialect: str) -> tuple[list[Placed], Request]:
    """Return a window and its request with a breakpoint at the end of the head and of what a checkpoint laid out."""
    raws = (*request.fields.values(), *(item.raw for item in request.head), *(placed.item.raw for placed in window))
    if any(SIGN in raw for raw in raws):
        return list(window), request
    head = with_breakpoint(request.head[-1], dialect=dialect) if request.head else None
    if head is not None:
        request = replace(request, head=(*request.head[:-1], head))
    laid_out = (at for at in range(len(window) - 1, -1, -1) if window[at].laid_out)
    for at in laid_out:
        item = with_breakpoint(window[at].item, dialect=dialect)
        if item is not None:
            return [*window[:at], replace(window[at], item=item), *window[at + 1 :]], request
    return list(window), request


def with_breakpoint(item: Item, *, dialect: str) -> Item | None:
    """Return a message whose last part ends a prefix that is worth keeping; None where it has none that could."""
    kind, fields = PARTS[dialect], split_object(item.raw) or {}
    if (read_object(item.raw) or {}).get("role") not in SPEAKERS:
        return None
    content = fields.get("content", b"null")
    parts = [make_text_part(content, kind=kind)] if content.startswith(b'"') else split_list(content) or []
    last = split_object(parts[-1]) if parts else None
    if last is None or last.get("type") != b'"' + kind + b'"':
        return None
    marked = join_object({**last, FIELD: EXPLICIT})
    return Item(join_object({**fields, "content": join_list([*parts[:-1], marked])}))
