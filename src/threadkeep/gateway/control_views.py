"""What the control API answers: the same keys as the command line's `--json`."""

from __future__ import annotations

import msgspec

from threadkeep.client import CompactionReport, Remarked, Thread
from threadkeep.compaction import LedgerEntry, Section, ledger_of

JsonObject = dict[str, object]


async def window_view(thread: Thread) -> JsonObject:
    """Return what the model sees next, every item with the bytes it is sent with."""
    history = await thread.history()
    items = [msgspec.Raw(item.raw) for item in thread.dialect.arrange(history.items)]
    return {
        "thread": thread.id,
        "dialect": thread.dialect.name,
        "tokens": history.tokens,
        "checkpoint": history.checkpoint_ordinal,
        "items": items,
    }


async def state_view(thread: Thread) -> JsonObject:
    """Return the session state, section by section."""
    history = await thread.history()
    ledger = ledger_of(history)
    sections = {section.value: [_entry_view(entry) for entry in ledger.section(section)] for section in Section}
    return {
        "thread": thread.id,
        "checkpoint": history.checkpoint_ordinal,
        "sections": sections,
        "in_view": sorted(ledger.in_view),
        "left_out": sorted(ledger.left_out),
    }


def compaction_view(report: CompactionReport) -> JsonObject:
    """Return what a compaction did."""
    return {
        "thread": report.thread,
        "checkpoint": report.checkpoint,
        "strategy": report.strategy,
        "fell_back_from": report.fell_back_from,
        "tokens_before": report.tokens_before,
        "tokens_after": report.tokens_after,
        "model_calls": report.model_calls,
        "over_target": report.over_target,
        "audit": report.audit.counts(),
    }


def remark_view(remarked: Remarked) -> JsonObject:
    """Return what a pin or a note made: its record, null where nothing changed, and the entries it is about."""
    entries = [_entry_view(entry) for entry in remarked.entries]
    return {"thread": remarked.thread, "record": remarked.record, "entries": entries}


def _entry_view(entry: LedgerEntry) -> JsonObject:
    shown: JsonObject = {
        "id": entry.id,
        "text": entry.text,
        "sources": [str(source) for source in entry.sources],
        "pinned": entry.pinned,
        "speaker": entry.speaker,
    }
    if entry.claim is not None:
        shown["claim"] = {"text": entry.claim.text, "source": str(entry.claim.source)}
    return shown
