"""What had to survive, and whether it did.

Required are every statement a person made in the replaced span, and what the thread still works on. What the merged ledger
and the kept items do not show is put there verbatim with a pointer. What a draft claims and no source shows is counted, never
acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from threadkeep.compaction.drafted import Doubt, without_doubtful
from threadkeep.compaction.hearing import normalised
from threadkeep.compaction.ledger import Ledger, Section, Speaker
from threadkeep.compaction.merge import amend
from threadkeep.compaction.operations import Add, Operation
from threadkeep.compaction.plan import Plan
from threadkeep.compaction.statements import statements
from threadkeep.compaction.ties import terms
from threadkeep.thread import EntryKind, Pointer


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
    """Check the merged ledger against the span it replaces: take out what a model may not say, repair what is missing."""
    ledger, doubts = without_doubtful(ledger, said=_heard(plan), shows=_shows(plan, ledger))
    required = list({(need.kind, normalised(need.text)): need for need in (*_demands(plan), *_work(plan))}.values())
    evidence = _Evidence.of(plan, ledger)
    missing = [need for need in required if not evidence.shows(need)]
    said = {seen.entry.source: seen.view.said for seen in plan.spoken if seen.entry.source is not None}
    repaired = amend(ledger, [_repair(need) for need in missing], spoken=said) if missing else ledger
    report = AuditReport(
        required=len(required),
        kept=len(required) - len(missing),
        repaired=tuple(Finding(kind=need.kind, text=need.text, pointer=str(need.source)) for need in missing),
        invented=(*map(_finding, doubts), *_invented(plan, ledger)),
    )
    return Audited(ledger=repaired, report=report)


def _heard(plan: Plan) -> Iterator[str]:
    """Yield what users say in the window: whatever a draft comes to, the ledger or the tail will hold it."""
    return (text for seen in plan.spoken for text in statements(seen.view.said))


def _finding(doubt: Doubt) -> Finding:
    sources = doubt.entry.sources
    return Finding(kind=doubt.kind, text=doubt.text, pointer=str(sources[-1]) if sources else None)


def _shows(plan: Plan, ledger: Ledger) -> Callable[[str], bool]:
    """Return whether the span, or what the ledger had before this compaction, shows a value."""
    older = [entry.text for entry in ledger.entries if entry.speaker is not Speaker.MODEL or entry.born != ledger.age]
    source = ""

    def shows(value: str) -> bool:
        nonlocal source
        source = source or "\n".join((*older, *(seen.view.text for seen in plan.observed)))
        return value in source

    return shows


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
    """Return values that model-written entries name, outside what binds, and nothing in the span or the older ledger shows."""
    claims = [entry for entry in ledger.entries if entry.speaker is Speaker.MODEL and entry.born == ledger.age]
    if not claims:
        return []
    shows = _shows(plan, ledger)
    return [
        Finding(kind="invented", text=value) for entry in claims for value in sorted(terms(entry.text).values) if not shows(value)
    ]
