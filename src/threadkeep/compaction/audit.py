"""Whether every line of a state is true, and whether what must survive did.

Each line is checked against the record it names; one that the record does not bear out is taken out, or put right, and reported.
Required are every message of a person that the window no longer holds, pins, and the work under way. What a draft claims and no
source shows is taken out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from threadkeep.compaction.ledger import BINDING, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import ASKED, compute_entries, normalise_text
from threadkeep.compaction.message_judgement import find_values
from threadkeep.compaction.message_shortener import shorten
from threadkeep.compaction.plan import Plan

# A model's entry that shares so much with one message of a user is a version of it.
ALIKE_PERCENT = 60


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault that the audit found in a line or a claim."""

    kind: str
    text: str
    pointer: str | None = None


class AuditReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many things were required, how many the window tells, and what was put right, invented, or left to recall.

    Attributes:
        required: Messages of people that left the window, pins, and lines about the work under way.
        kept: How many of them the new window tells, whole or shortened.
        repaired: Lines that were false, and were put right or taken out.
        invented: What a draft claimed and no source shows; taken out.
        left_out: How many messages of people the state has no room for; it names where they are.
    """

    required: int
    kept: int
    repaired: tuple[Fault, ...] = ()
    invented: tuple[Fault, ...] = ()
    left_out: int = 0

    def counts(self) -> dict[str, int]:
        """Return the report as the command line's contract has it."""
        return {
            "required": self.required,
            "kept": self.kept,
            "repaired": len(self.repaired),
            "invented": len(self.invented),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A checked ledger and the faults found in it."""

    ledger: Ledger
    repaired: tuple[Fault, ...] = ()
    invented: tuple[Fault, ...] = ()


def audit(plan: Plan, ledger: Ledger, *, focus: str | None = None) -> Audited:
    """Return the ledger without the entries that its records contradict."""
    records = {seen.source: seen.view for seen in plan.observed}
    # Several messages may have one record: another's compaction that kept them.
    spoken = {(seen.source, shorten(seen.view.said)) for seen in plan.observed if seen.view.by_person}
    computed = {(entry.section, entry.text) for entry in compute_entries(ledger.journal, age=ledger.age, focus=focus)}
    is_shown = _make_value_check(plan, ledger)
    kept: list[LedgerEntry] = []
    repaired: list[Fault] = []
    invented: list[Fault] = []
    for entry in ledger.entries:
        view = records.get(entry.sources[-1]) if entry.sources else None
        match entry.speaker:
            case Speaker.USER if view is not None and not entry.noted and (entry.sources[-1], entry.text) not in spoken:
                repaired.append(_make_fault("quote", entry))
                if not view.by_person:
                    continue
                entry = replace(entry, text=shorten(view.said))
            case Speaker.AGENT if view is not None and entry.text not in " ".join(view.text.split()):
                repaired.append(_make_fault("finding", entry))
                continue
            case Speaker.COMPUTED if not entry.pinned and (entry.section, entry.text) not in computed:
                repaired.append(_make_fault("fact", entry))
                continue
            case Speaker.MODEL if entry.born == ledger.age and not entry.pinned and not entry.noted:
                if unseen := sorted(value for value in find_values(entry.text) if not is_shown(value)):
                    invented.append(Fault(kind="invented", text=", ".join(unseen), pointer=_find_pointer(entry)))
                    continue
                if entry.section in BINDING and _is_repetition(entry, ledger):
                    invented.append(_make_fault("restated", entry))
                    continue
                if entry.section is Section.ACTIVE and _is_alteration(entry, ledger):
                    invented.append(_make_fault("altered", entry))
                    continue
            case _:
                pass
        kept.append(entry)
    return Audited(ledger=replace(ledger, entries=tuple(kept)), repaired=tuple(repaired), invented=tuple(invented))


def make_report(audited: Audited, state: Ledger) -> AuditReport:
    """Count the required entries and those that the state tells."""
    required = list(_find_required(audited.ledger))
    gone = [entry for entry in required if entry.id in state.left_out]
    return AuditReport(
        required=len(required),
        kept=len(required) - len(gone),
        repaired=audited.repaired,
        invented=audited.invented,
        left_out=sum(entry.speaker is Speaker.USER for entry in gone),
    )


def _find_required(ledger: Ledger) -> Iterator[LedgerEntry]:
    for entry in ledger.entries:
        under_way = entry.speaker is Speaker.COMPUTED and entry.section is Section.HANDOFF and not entry.text.startswith(ASKED)
        if entry.pinned or under_way or (entry.speaker is Speaker.USER and entry.section is not Section.INACTIVE):
            yield entry


def _is_repetition(entry: LedgerEntry, ledger: Ledger) -> bool:
    """Whether a model's entry repeats the words of a user's entry."""
    words = normalise_text(entry.text)
    said = (normalise_text(other.text) for other in ledger.entries if other.speaker is Speaker.USER)
    return bool(words) and any(f" {words} " in f" {other} " for other in said)


def _is_alteration(entry: LedgerEntry, ledger: Ledger) -> bool:
    """Whether a model's entry is a user's message with words changed: only a user changes a user's rule."""
    words = normalise_text(entry.text)
    pieces = _split_trigrams(words)
    for other in (normalise_text(other.text) for other in ledger.entries if other.speaker is Speaker.USER):
        if len(pieces & _split_trigrams(other)) * 100 >= len(pieces) * ALIKE_PERCENT and not set(words.split()) <= set(
            other.split()
        ):
            return True
    return False


def _split_trigrams(words: str) -> frozenset[str]:
    """Return every run of three characters: similar texts share most of them, in any language."""
    return frozenset(words[at : at + 3] for at in range(max(1, len(words) - 2)))


def _make_value_check(plan: Plan, ledger: Ledger) -> Callable[[str], bool]:
    """Return a check whether the span, or the ledger before this compaction, shows a value."""
    older = [entry.text for entry in ledger.entries if entry.speaker is not Speaker.MODEL or entry.born != ledger.age]
    source = ""

    def is_shown(value: str) -> bool:
        nonlocal source
        source = source or "\n".join((*older, *(seen.view.text for seen in plan.observed)))
        return value in source

    return is_shown


def _make_fault(kind: str, entry: LedgerEntry) -> Fault:
    return Fault(kind=kind, text=entry.text, pointer=_find_pointer(entry))


def _find_pointer(entry: LedgerEntry) -> str | None:
    return str(entry.sources[-1]) if entry.sources else None
