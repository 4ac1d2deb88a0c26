"""How OpenAI compacts a history: this module is the dialect's `ProviderCompaction`.

Where a server has no `/responses/compact`, an ordinary answer is requested that compacts on the way: any history exceeds the
lowest threshold, and the answer itself is kept as short as possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.raw_json import read_object
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
ON_THE_WAY: Final[Mapping[str, bytes]] = {
    "context_management": b'[{"type":"compaction","compact_threshold":1000}]',
    "max_output_tokens": b"16",
    "store": b"false",
}


def split(item: Item) -> SplitItem:
    fields = (read_object(item.raw) or {}) if b"compaction" in item.raw else {}
    is_written = fields.get("type") in TYPES and any(fields.get(name) for name in HOLDING)
    return SplitItem(written=item, rest=None) if is_written else SplitItem(written=None, rest=item)


def ask(request: Request, *, model: str) -> tuple[CompactionRequest, ...]:
    kept = {name: request.fields[name] for name in TAKEN if name in request.fields}
    asked = replace(request, fields={"model": msgspec.json.encode(model), "input": b"[]", **kept})
    return (
        CompactionRequest(path="/responses/compact", request=asked, headers={}),
        CompactionRequest(path="/responses", request=replace(asked, fields={**asked.fields, **ON_THE_WAY}), headers={}),
    )


def address_turn(request: Request) -> tuple[Request, Mapping[str, str]]:
    return request, {}
