"""How OpenAI compacts a history: this module is the dialect's `ProviderCompaction`.

An ordinary request ends with an item that asks for the compaction, as Codex's do. A server that does not know this item is asked
at `/responses/compact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.raw_json import Json, read_object
from threadkeep.dialects.values import CompactionRequest, Request, SplitItem
from threadkeep.items import Item

TYPES: Final = ("compaction", "context_compaction", "compaction_summary")
# An item without any of these fields is a failed compaction.
HOLDING: Final = ("encrypted_content", "content", "summary")
# The fields of a turn that `/responses/compact` accepts. It answers with no message, so fields that shape one are left out.
TAKEN: Final = (
    *("instructions", "tools", "parallel_tool_calls", "reasoning", "text", "service_tier"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
)
# The item behind a history that asks for its compaction, and the header with which Codex announces it.
TRIGGER: Final = "compaction_trigger"
ANNOUNCED: Final[Mapping[str, str]] = {"x-codex-beta-features": "remote_compaction_v2"}
UNKEPT: Final[Mapping[str, bytes]] = {"store": b"false", "include": b'["reasoning.encrypted_content"]'}


def split(item: Item) -> SplitItem:
    fields = (read_object(item.raw) or {}) if b"compaction" in item.raw else {}
    is_written = fields.get("type") in TYPES and any(fields.get(name) for name in HOLDING)
    return SplitItem(written=item, rest=None) if is_written else SplitItem(written=None, rest=item)


def ask(request: Request, *, model: str) -> tuple[CompactionRequest, ...]:
    kept = {name: request.fields[name] for name in TAKEN if name in request.fields}
    items = drop_stored(request.items)
    asked = replace(request, fields={"model": msgspec.json.encode(model), "input": b"[]", **kept}, items=items)
    trigger = Item(msgspec.json.encode({"type": TRIGGER}))
    triggered = replace(asked, fields={**asked.fields, **UNKEPT}, items=(*items, trigger))
    return (
        CompactionRequest(path="/responses", request=triggered, headers=ANNOUNCED, names=TRIGGER),
        CompactionRequest(path="/responses/compact", request=asked, headers={}),
    )


def instruct(request: Request, text: str) -> Request:
    return request


def drop_stored(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return a history without reasoning that only a provider's own store has: an id, and no content."""
    return tuple(item for item in items if b'"reasoning"' not in item.raw or not _is_stored(read_object(item.raw) or {}))


def _is_stored(fields: Json) -> bool:
    return fields.get("type") == "reasoning" and bool(fields.get("id")) and not fields.get("encrypted_content")


def address_turn(request: Request) -> tuple[Request, Mapping[str, str]]:
    return request, {}
