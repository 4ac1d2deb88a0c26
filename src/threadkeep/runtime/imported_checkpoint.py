"""The checkpoint an import writes where the source of the import was compacted by whoever wrote it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from threadkeep.compaction import Ledger
from threadkeep.compaction.audit import AuditReport
from threadkeep.compaction.ledger import dump_ledger
from threadkeep.dialects import Dialect
from threadkeep.items import Item
from threadkeep.runtime.said import Placed
from threadkeep.thread import Checkpoint, LayoutEntry, LiteralEntry, Pointer

STRATEGY = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCheckpoint:
    """A foreign compaction: what it put in place of what it replaced. It has no state and no audit of ours.

    `cut` is where the kept tail begins, None where nothing before the checkpoint is kept; `tokens_behind` counts that tail.
    """

    layout: tuple[Placed, ...]
    base: int | None
    cut: int | None
    covers: int
    tokens_before: int
    tokens_behind: int

    @property
    def tokens_after(self) -> int:
        return sum(tokens for _, tokens in self.layout) + self.tokens_behind

    def at(self, own: Pointer, *, dialect: Dialect) -> Checkpoint:
        """Return the body of its record, which will be `own`."""
        return Checkpoint(
            strategy=STRATEGY,
            base=self.base,
            cut=own.ordinal if self.cut is None else self.cut,
            covers=self.covers,
            layout=[_sourced(entry, own, dialect=dialect) for entry, _ in self.layout],
            state=msgspec.Raw(dump_ledger(Ledger())),
            audit=msgspec.Raw(msgspec.json.encode(AuditReport(required=0, kept=0))),
            figures={"tokens_before": self.tokens_before, "tokens_after": self.tokens_after, "model_calls": 0},
        )


def _sourced(entry: LayoutEntry, own: Pointer, *, dialect: Dialect) -> LayoutEntry:
    """Return a literal that holds a person's words no record has with the checkpoint itself as their source."""
    if not isinstance(entry, LiteralEntry) or entry.ordinal is not None:
        return entry
    if not dialect.view(Item(bytes(entry.item))).by_person:
        return entry
    return msgspec.structs.replace(entry, thread=own.thread_id, ordinal=own.ordinal)
