"""What a provider compacted by itself in the middle of an answer, as `context_management` has it do.

Such an item stands for everything before it, and its provider reads nothing that is in front of it: left among what stays, it
would hide the state. So every compaction takes it out of the window; `remote` puts the newest one first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from threadkeep.dialects.raw_json import join_list, join_object, read_value, split_list, split_object
from threadkeep.items import Item
from threadkeep.threads import EntryKind, History, Pointer, WindowEntry
from threadkeep.tokens import estimate_item

# How providers call what they write for themselves: an item of its own, or a block of an answer.
COMPACTIONS: Final = frozenset({"compaction", "context_compaction", "compaction_summary"})
SIGN: Final = b"compaction"
# A block without any of these says that the provider tried and failed: it stands for nothing.
HOLDING: Final = ("content", "encrypted_content", "summary")
NOTHING: Final = b"null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """An item taken apart: what its provider compacted, and what else it holds."""

    written: Item | None
    rest: Item | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCompaction:
    """What a provider compacted by itself, and the record it stands in."""

    item: Item
    place: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """A window without what providers compacted in it, and the newest of that; None where there is none."""

    history: History
    written: ProviderCompaction | None = None


def split_inline(item: Item) -> Parted:
    """Return an item taken apart, every block with its exact bytes; one without a compaction is all rest."""
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
    """Whether a provider compacted within an answer that the window still holds as it came."""
    return any(_has_record(entry) and split_inline(entry.item).written is not None for entry in history.entries)


def take_out(history: History) -> TakenOut:
    """Return a window without what providers compacted in it; the very same one where there is nothing of the kind."""
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
