"""What had to survive, and whether it did.

Required are every statement a person made in the replaced span, and what the thread still works on. What the merged ledger
and the kept items do not show is put there verbatim with a pointer. What a draft claims and no source shows is counted, never
acted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holdfast.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from holdfast.compaction.merge import amend, normalised
from holdfast.compaction.operations import Add, Operation
from holdfast.compaction.plan import Plan
from holdfast.compaction.statements import statements
from holdfast.compaction.ties import terms
from holdfast.thread import EntryKind, Pointer


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something the audit had to say about one required thing or one claim."""

    kind: str
    text: str
    pointer: str | None = None


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many things were required, how many the draft kept, and what was repaired or invented."""

    required: int
    kept: int
    repaired: tuple[Finding, ...] = ()
    invented: tuple[Finding, ...] = ()

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
    """A ledger that passed, and the report of what it took."""

    ledger: Ledger
    report: AuditReport


@dataclass(frozen=True, slots=True, kw_only=True)
class _Required:
    kind: str
    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """What the new window shows: a user's words in the ledger, and everything about the work in ledger and tail."""

    said: frozenset[str]
    work: str

    @classmethod
    def of(cls, plan: Plan, ledger: Ledger) -> _Evidence:
        kept = (position.seen.view.text for position in plan.tail if not position.stub)
        computed = (entry.text for entry in ledger.entries if entry.speaker is Speaker.COMPUTED)
        said = (normalised(entry.text) for entry in ledger.entries if entry.speaker is Speaker.USER)
        return cls(said=frozenset(said), work="\n".join((*computed, *kept)))

    def shows(self, need: _Required) -> bool:
        """Whether a need is met. A demand is met only as a user's own entry: tool and model text are data."""
        return normalised(need.text) in self.said if need.kind == "demand" else need.text in self.work


def audit(plan: Plan, ledger: Ledger) -> Audited:
    """Check the merged ledger against the span it replaces, and repair what is missing."""
    required = list({(need.kind, normalised(need.text)): need for need in (*_demands(plan), *_work(plan))}.values())
    evidence = _Evidence.of(plan, ledger)
    missing = [need for need in required if not evidence.shows(need)]
    said = {seen.entry.source: seen.view.said for seen in plan.spoken if seen.entry.source is not None}
    repaired = amend(ledger, [_repair(need) for need in missing], spoken=said) if missing else ledger
    report = AuditReport(
        required=len(required),
        kept=len(required) - len(missing),
        repaired=tuple(Finding(kind=need.kind, text=need.text, pointer=str(need.source)) for need in missing),
        invented=tuple(_invented(plan, ledger)),
    )
    return Audited(ledger=repaired, report=report)


def _demands(plan: Plan) -> list[_Required]:
    """Return every statement of a person that leaves the window."""
    return [
        _Required(kind="demand", text=text, source=seen.entry.source)
        for seen in plan.replaced
        if seen.view.by_person and seen.entry.source is not None and seen.entry.kind is not EntryKind.STUB
        for text in statements(seen.view.said)
    ]


def _work(plan: Plan) -> list[_Required]:
    """Return what the thread still works on: open calls, the newest files, the last error."""
    working = plan.working
    needs = [_Required(kind="open_call", text=line.text, source=line.source) for line in working.open_calls]
    needs.extend(_Required(kind="file", text=line.text, source=line.source) for line in working.files)
    if working.last_error:
        needs.append(_Required(kind="error", text=working.last_error.text, source=working.last_error.source))
    return needs


def _repair(need: _Required) -> Operation:
    if need.kind == "demand":
        return Add(section=Section.ACTIVE, text=need.text, source=need.source, speaker=Speaker.USER)
    return Add(section=Section.HANDOFF, text=f"{need.kind}: {need.text}", source=need.source, speaker=Speaker.COMPUTED)


def _invented(plan: Plan, ledger: Ledger) -> list[Finding]:
    """Return values that model-written entries name and nothing in the span or the older ledger shows."""
    claims = [entry for entry in ledger.entries if entry.speaker is Speaker.MODEL and entry.born == ledger.age]
    if not claims:
        return []
    source = "\n".join(seen.view.text for seen in plan.observed)
    return [
        Finding(kind="invented", text=value)
        for entry in claims
        for value in sorted(terms(entry.text).values)
        if value not in source and not _told_before(value, ledger.entries, claims)
    ]


def _told_before(value: str, entries: Sequence[LedgerEntry], claims: Sequence[LedgerEntry]) -> bool:
    fresh = {entry.id for entry in claims}
    return any(value in entry.text for entry in entries if entry.id not in fresh)
