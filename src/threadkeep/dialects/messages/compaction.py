"""How Anthropic compacts a history: this module is the dialect's `ProviderCompaction`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.messages.thinking_blocks import BETA_HEADER, drop_mismatched, is_requested
from threadkeep.dialects.raw_json import ABSENT, join_list, join_object, read_object, split_list, split_object
from threadkeep.dialects.values import CompactionRequest, Request, SplitItem
from threadkeep.items import Item

# The provider compacts a history when asked, and reads the block that it put in place of one.
COMPACTION_BETA: Final = "compact-2026-09-04"
# A block without any of these fields is a failed compaction.
HOLDING: Final = ("content", "encrypted_content")
# The API answers no request without a bound.
SUMMARY_TOKENS: Final = b"8192"
# Refused in a request for compaction: two compactions at once, and fields that only shape an answer.
UNWANTED: Final = frozenset({"context_management", "stop_sequences", "output_format", "stream"})
# The context edit of a turn that its provider compacts on the way, and the beta it needs.
ON_THE_WAY: Final = b'"compact_20260112"'
ON_THE_WAY_BETA: Final = "compact-2026-01-12"


def split(item: Item) -> SplitItem:
    fields = (split_object(item.raw) or {}) if b'"compaction"' in item.raw else {}
    written: list[bytes] = []
    rest: list[bytes] = []
    for block in split_list(fields.get("content", ABSENT)) or ():
        (written if _is_written(block) else rest).append(block)
    if not written or fields.get("role") != b'"assistant"':
        return SplitItem(written=None, rest=item)
    if not rest:
        return SplitItem(written=item, rest=None)
    return SplitItem(written=_replace_content(fields, written), rest=_replace_content(fields, rest))


def ask(request: Request, *, model: str) -> tuple[CompactionRequest, ...]:
    """Keep tools, system and thinking unchanged, so that the prefix is cached."""
    kept = {name: raw for name, raw in request.fields.items() if name not in UNWANTED}
    if (read_object(kept.get("tool_choice", ABSENT)) or {}).get("type") in ("any", "tool"):
        del kept["tool_choice"]
    if (output := split_object(kept.get("output_config", ABSENT))) is not None:
        kept["output_config"] = join_object({name: raw for name, raw in output.items() if name != "format"})
    own = {"model": msgspec.json.encode(model), "compaction": kept.get("compaction", b'{"type":"summarize"}')}
    asked = replace(request, fields={"max_tokens": SUMMARY_TOKENS, **kept, **own})
    return (CompactionRequest(path="/messages", request=asked, headers={BETA_HEADER: COMPACTION_BETA}),)


def instruct(request: Request, text: str) -> Request:
    own = msgspec.json.encode({"type": "summarize", "instructions": text})
    return replace(request, fields={**request.fields, "compaction": own})


def address_turn(request: Request) -> tuple[Request, Mapping[str, str]]:
    """Name the betas for what a history holds, and have the provider drop thinking that is bound to another, unless told else.

    A compaction block does not show which beta made it, so both are named if the turn requests one on the way.
    """
    betas = [COMPACTION_BETA] if any(b'"compaction"' in item.raw and _holds_block(item) for item in request.items) else []
    betas += [ON_THE_WAY_BETA] if ON_THE_WAY in request.fields.get("context_management", ABSENT) else []
    if is_requested(request):
        dropping, headers = drop_mismatched(request)
        betas += headers.values()
        request = request if "block_binding" in (split_object(request.fields["thinking"]) or {}) else dropping
    return request, {BETA_HEADER: ",".join(betas)} if betas else {}


def _holds_block(item: Item) -> bool:
    blocks = split_list((split_object(item.raw) or {}).get("content", ABSENT)) or ()
    return any((read_object(block) or {}).get("type") == "compaction" for block in blocks)


def _is_written(block: bytes) -> bool:
    fields = read_object(block) or {}
    return fields.get("type") == "compaction" and any(fields.get(name) for name in HOLDING)


def _replace_content(fields: Mapping[str, bytes], blocks: Sequence[bytes]) -> Item:
    return Item(join_object({**fields, "content": join_list(blocks)}))
