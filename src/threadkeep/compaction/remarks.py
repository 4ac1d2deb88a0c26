"""What people remarked since the last checkpoint, folded into its ledger.

A note is a user's statement like any other, only made beside the conversation: it binds, it may set aside what it contradicts,
and later words may set it aside unless it is pinned. A pinned entry is left alone by every draft and every budget. Only remarks
pin: no operation of a draft can. What an agent notes down for itself is a model's statement, and is treated like one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import assert_never

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker, load_ledger
from threadkeep.compaction.merge import amend
from threadkeep.compaction.operations import Add
from threadkeep.compaction.statements import is_cut, is_paste, statements
from threadkeep.items import body_digest, written
from threadkeep.thread import PinBody, Remark, SaidBody, UnpinBody


def with_remarks(ledger: Ledger, remarks: Sequence[Remark]) -> Ledger:
    """Return the ledger with what people remarked, in the order they did. The same remarks always give the same ids."""
    for speaks, run in groupby(remarks, key=_only_says):
        together = list(run)
        ledger = _told(ledger, together) if speaks else reduce(_with_one, together, ledger)
    return ledger


def _with_one(ledger: Ledger, remark: Remark) -> Ledger:
    match remark.body:
        case SaidBody():
            return _kept(ledger, remark, remark.body)
        case PinBody():
            return _pinned(ledger, remark, remark.body)
        case UnpinBody():
            found = _meant(ledger, remark.body)
            return ledger.with_entry(replace(found, pinned=False)) if found else ledger
        case _:
            assert_never(remark.body)


def words_of(entry: LedgerEntry) -> str:
    """Return the digest by which a pin knows what it is about, whatever number that has in another ledger."""
    return written(body_digest(entry.text.encode("utf-8", "surrogatepass")))


def _only_says(remark: Remark) -> bool:
    """Whether a remark is a note like any other statement: such are weighed together, however many there are."""
    return isinstance(remark.body, SaidBody) and not remark.body.pinned and _is_plain(remark.body)


def _is_plain(body: SaidBody) -> bool:
    """Whether a note is told whole by its statements. In a message a paste is named by its size; who notes one wants it kept."""
    parts = statements(body.text.strip())
    return bool(parts) and not any(is_paste(part) or is_cut(part) for part in parts)


def _told(ledger: Ledger, remarks: Sequence[Remark]) -> Ledger:
    """Return the ledger after notes, statement by statement: they may set aside what they contradict."""
    said = [(remark.source, remark.body) for remark in remarks if isinstance(remark.body, SaidBody)]
    told = [
        Add(section=Section.ACTIVE, text=part, source=source, speaker=_speaker(body))
        for source, body in said
        for part in statements(body.text.strip())
    ]
    return amend(ledger, told, spoken={source: body.text.strip() for source, body in said})


def _kept(ledger: Ledger, remark: Remark, body: SaidBody) -> Ledger:
    """Return the ledger after one note that is pinned, or has to stay in one piece."""
    if _is_plain(body):
        ledger = _told(ledger, [remark])
    else:
        text, source = body.text.strip(), remark.source
        whole = LedgerEntry(id="", section=Section.ACTIVE, text=text, sources=(source,), speaker=_speaker(body), born=ledger.age)
        ledger = _with_new(ledger, whole)
    if not body.pinned or body.by_agent:
        return ledger
    kept = tuple(replace(entry, pinned=True) if remark.source in entry.sources else entry for entry in ledger.entries)
    return replace(ledger, entries=kept)


def _speaker(body: SaidBody) -> Speaker:
    return Speaker.MODEL if body.by_agent else Speaker.USER


def _pinned(ledger: Ledger, remark: Remark, body: PinBody) -> Ledger:
    found = _meant(ledger, body)
    if found is not None:
        return ledger.with_entry(replace(found, pinned=True))
    # The checkpoint it was seen in no longer counts: what a person asked to keep outlasts that.
    seen = load_ledger(bytes(remark.seen.state)).find(body.entry) if remark.seen else None
    if seen is None or words_of(seen) != body.words:
        return ledger
    return _with_new(ledger, replace(seen, born=ledger.age, pinned=True))


def _meant(ledger: Ledger, body: PinBody | UnpinBody) -> LedgerEntry | None:
    """Return the entry that says what was meant, the one of that number first; none where nothing says so any more."""
    alike = [entry for entry in ledger.entries if words_of(entry) == body.words]
    return next((entry for entry in alike if entry.id == body.entry), alike[-1] if alike else None)


def _with_new(ledger: Ledger, entry: LedgerEntry) -> Ledger:
    numbered = replace(entry, id=str(ledger.next_number))
    return replace(ledger, entries=(*ledger.entries, numbered), next_number=ledger.next_number + 1)
