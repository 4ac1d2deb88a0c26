"""What a provider compacted by itself in the middle of an answer, as `context_management` has it do.

Such an item stands for everything before it, and its provider reads nothing that is in front of it: left among what stays, it
would hide the state. So every compaction takes it out of the window; `remote` puts the newest one first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from holdfast.dialects.spans import object_in
from holdfast.items import Item
from holdfast.thread import EntryKind, History, WindowEntry
from holdfast.tokens import estimate_item

# How providers call what they write for themselves: an item of its own, or a block of an answer.
COMPACTIONS: Final = frozenset({"compaction", "context_compaction", "compaction_summary"})
SIGN: Final = b"compaction"
# A block without any of these says that the provider tried and failed: it stands for nothing.
HOLDING: Final = ("content", "encrypted_content", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """An item taken apart: what its provider compacted, and what else it holds."""

    written: Item | None
    rest: Item | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """A window without what providers compacted in it.

    Attributes:
        written: The newest of these; None where there is none.
        since_tokens: What came with it or after it.
    """

    history: History
    written: Item | None = None
    since_tokens: int = 0


def parted(item: Item) -> Parted:
    """Return an item taken apart; one without a compaction is all rest."""
    fields = (object_in(item.raw) or {}) if SIGN in item.raw else {}
    if _is_compaction(fields):
        return Parted(written=item, rest=None)
    content = fields.get("content") if fields.get("role") == "assistant" else None
    blocks = content if isinstance(content, list) else []
    written = [block for block in blocks if isinstance(block, dict) and _is_compaction(block)]
    if not written:
        return Parted(written=None, rest=item)
    rest = [block for block in blocks if block not in written]
    return Parted(
        written=Item(msgspec.json.encode({**fields, "content": written})) if rest else item,
        rest=Item(msgspec.json.encode({**fields, "content": rest})) if rest else None,
    )


def holds_compaction(history: History) -> bool:
    """Whether a provider compacted within an answer that the window still holds as it came."""
    return any(_recorded(entry) and parted(entry.item).written is not None for entry in history.entries)


def take_out(history: History) -> TakenOut:
    """Return a window without what providers compacted in it; the very same one where there is nothing of the kind."""
    if not holds_compaction(history):
        return TakenOut(history=history)
    written: Item | None = None
    cut_from = 0
    since: list[WindowEntry] = []
    kept: list[WindowEntry] = []
    for entry in history.entries:
        found = parted(entry.item) if _recorded(entry) else Parted(written=None, rest=entry.item)
        if found.written is not None and entry.source is not None:
            written, since, cut_from = found.written, [], entry.source.ordinal + 1
        if found.rest is None:
            continue
        if found.written is not None:
            tokens = estimate_item(found.rest.raw)
            entry = replace(entry, kind=EntryKind.STUB, item=found.rest, tokens=tokens)
        kept.append(entry)
        since.append(entry)
    return TakenOut(
        history=replace(history, entries=tuple(kept), cut_from=cut_from),
        written=written,
        since_tokens=sum(entry.tokens for entry in since),
    )


def _recorded(entry: WindowEntry) -> bool:
    return SIGN in entry.item.raw and entry.source is not None and entry.kind in (EntryKind.KEEP, EntryKind.STUB)


def _is_compaction(fields: dict[str, object]) -> bool:
    return fields.get("type") in COMPACTIONS and any(fields.get(name) for name in HOLDING)
