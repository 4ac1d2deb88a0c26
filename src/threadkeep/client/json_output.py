"""Windows, states, compactions and remarks as the JSON that the command line prints and the control API answers."""

from __future__ import annotations

import msgspec

from threadkeep.client.thread import Thread
from threadkeep.compaction import LedgerEntry, Section, read_ledger
from threadkeep.compaction.pins import Remarked
from threadkeep.compaction.report import CompactionReport

JsonObject = dict[str, object]


async def encode_window(thread: Thread) -> JsonObject:
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


async def encode_state(thread: Thread) -> JsonObject:
    """Return the session state, section by section."""
    history = await thread.history()
    ledger = read_ledger(history)
    sections = {section.value: [encode_entry(entry) for entry in ledger.section(section)] for section in Section}
    return {
        "thread": thread.id,
        "checkpoint": history.checkpoint_ordinal,
        "sections": sections,
        "in_view": sorted(ledger.in_view),
        "left_out": sorted(ledger.left_out),
    }


def encode_compaction(report: CompactionReport) -> JsonObject:
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


def encode_remark(remarked: Remarked) -> JsonObject:
    """Return what a pin or a note made: its record, null where nothing changed, and the entries it is about."""
    entries = [encode_entry(entry) for entry in remarked.entries]
    return {"thread": remarked.thread, "record": remarked.record, "entries": entries}


def encode_entry(entry: LedgerEntry) -> JsonObject:
    """Return an entry of the ledger."""
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
