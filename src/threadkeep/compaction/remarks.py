"""Applies pins and notes since the last checkpoint to its ledger.

A note is a user's statement beside the conversation: it binds, and the state shows it as written. No draft and no budget changes
a pinned entry. Only remarks pin entries; operations of a draft cannot. An agent's note is a model's statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import assert_never

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker, load_ledger
from threadkeep.items import digest_body, format_digest
from threadkeep.threads import PinBody, Remark, SaidBody, UnpinBody


def apply_remarks(ledger: Ledger, remarks: Sequence[Remark]) -> Ledger:
    """Return the ledger with the remarks applied in order. The same remarks always give the same ids."""
    return reduce(_apply_remark, remarks, ledger)


def get_words(entry: LedgerEntry) -> str:
    """Return the digest by which a pin finds its entry, whatever its number in another ledger."""
    return format_digest(digest_body(entry.text.encode("utf-8", "surrogatepass")))


def _apply_remark(ledger: Ledger, remark: Remark) -> Ledger:
    match remark.body:
        case SaidBody():
            return _add_note(ledger, remark, remark.body)
        case PinBody():
            return _pin(ledger, remark, remark.body)
        case UnpinBody():
            found = _find_entry(ledger, remark.body)
            return ledger.with_entry(replace(found, pinned=False)) if found else ledger
        case _:
            assert_never(remark.body)


def _add_note(ledger: Ledger, remark: Remark, body: SaidBody) -> Ledger:
    text, speaker = body.text.strip(), Speaker.MODEL if body.by_agent else Speaker.USER
    pinned = body.pinned and not body.by_agent
    known = next((entry for entry in ledger.entries if entry.noted and entry.text == text and entry.speaker is speaker), None)
    if known is not None:
        sources = (*known.sources, remark.source)
        return ledger.with_entry(replace(known, sources=sources, pinned=known.pinned or pinned))
    entry = LedgerEntry(
        id="",
        section=Section.ACTIVE,
        text=text,
        sources=(remark.source,),
        speaker=speaker,
        born=ledger.age,
        pinned=pinned,
        noted=True,
    )
    return _add_entry(ledger, entry)


def _pin(ledger: Ledger, remark: Remark, body: PinBody) -> Ledger:
    found = _find_entry(ledger, body)
    if found is not None:
        return ledger.with_entry(replace(found, pinned=True))
    # The checkpoint with this entry was undone; a pinned entry outlasts it.
    seen = load_ledger(bytes(remark.seen.state)).find(body.entry) if remark.seen else None
    if seen is None or get_words(seen) != body.words:
        return ledger
    return _add_entry(ledger, replace(seen, born=ledger.age, pinned=True))


def _find_entry(ledger: Ledger, body: PinBody | UnpinBody) -> LedgerEntry | None:
    """Return the entry with the pinned words, the one with the same number first; None if there is none."""
    alike = [entry for entry in ledger.entries if get_words(entry) == body.words]
    return next((entry for entry in alike if entry.id == body.entry), alike[-1] if alike else None)


def _add_entry(ledger: Ledger, entry: LedgerEntry) -> Ledger:
    numbered = replace(entry, id=str(ledger.next_number))
    return replace(ledger, entries=(*ledger.entries, numbered), next_number=ledger.next_number + 1)
