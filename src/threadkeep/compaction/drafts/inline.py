"""Compactions that a provider writes by itself within a reply, under `context_management`.

Such an item replaces everything before it, and its provider ignores the items in front of it: in the frontier it would hide the
state. So every compaction removes it from the window; `remote` puts the newest one first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from threadkeep.dialects.raw_json import join_list, join_object, read_value, split_list, split_object
from threadkeep.items import Item
from threadkeep.threads import EntryKind, History, Pointer, WindowEntry
from threadkeep.tokens import estimate_item

# The types of such items and blocks.
COMPACTIONS: Final = frozenset({"compaction", "context_compaction", "compaction_summary"})
SIGN: Final = b"compaction"
# A block without any of these fields is a failed compaction.
HOLDING: Final = ("content", "encrypted_content", "summary")
NOTHING: Final = b"null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """The two parts of an item: its provider's compaction, and the rest."""

    written: Item | None
    rest: Item | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCompaction:
    """A provider's own compaction and its record."""

    item: Item
    place: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """A window without providers' compactions, and the newest of these; None if there is none."""

    history: History
    written: ProviderCompaction | None = None


def split_inline(item: Item) -> Parted:
    """Split an item into compaction and rest, every block with its exact bytes."""
    fields = split_object(item.raw) if SIGN in item.raw else None
    if fields is None:
        return Parted(written=None, rest=item)
    if _is_compaction(fields):
        return Parted(written=item, rest=None)
    is_answer = read_value(fields.get("role", NOTHING)) == "assistant"
    blocks = (split_list(fields.get("content", NOTHING)) or []) if is_answer else []
    written: list[bytes] = []
    rest: list[bytes] = []
    for block in blocks:
        (written if _is_compaction(split_object(block) or {}) else rest).append(block)
    if not written:
        return Parted(written=None, rest=item)
    if not rest:
        return Parted(written=item, rest=None)
    return Parted(written=_replace_content(fields, written), rest=_replace_content(fields, rest))


def holds_compaction(history: History) -> bool:
    """Whether the window holds a reply with a provider's own compaction."""
    return any(_has_record(entry) and split_inline(entry.item).written is not None for entry in history.entries)


def take_out(history: History) -> TakenOut:
    """Return a window without providers' compactions; the same window if it has none."""
    if not holds_compaction(history):
        return TakenOut(history=history)
    written: ProviderCompaction | None = None
    kept: list[WindowEntry] = []
    for entry in history.entries:
        found = split_inline(entry.item) if _has_record(entry) else Parted(written=None, rest=entry.item)
        if found.written is not None and entry.source is not None:
            written = ProviderCompaction(item=found.written, place=entry.source)
        if found.rest is None:
            continue
        if found.written is not None:
            tokens = estimate_item(found.rest.raw)
            entry = replace(entry, kind=EntryKind.STUB, item=found.rest, tokens=tokens)
        kept.append(entry)
    cut_from = written.place.ordinal + 1 if written is not None else 0
    return TakenOut(history=replace(history, entries=tuple(kept), cut_from=cut_from), written=written)


def _has_record(entry: WindowEntry) -> bool:
    return SIGN in entry.item.raw and entry.source is not None and entry.kind in (EntryKind.KEEP, EntryKind.STUB)


def _is_compaction(fields: Mapping[str, bytes]) -> bool:
    kind = read_value(fields.get("type", NOTHING))
    return isinstance(kind, str) and kind in COMPACTIONS and any(read_value(fields.get(name, NOTHING)) for name in HOLDING)


def _replace_content(fields: Mapping[str, bytes], blocks: Sequence[bytes]) -> Item:
    return Item(join_object({**fields, "content": join_list(blocks)}))
