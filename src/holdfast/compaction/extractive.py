"""The model-free strategy: a person's own words, and what can be computed.

Works offline, is what every other strategy falls back to, and always has something to say.
"""

from __future__ import annotations

from holdfast.compaction.bindings import BINDINGS_KEPT, reused
from holdfast.compaction.ledger import Ledger, Section, Speaker
from holdfast.compaction.operations import Add, Hear, Operation, Refresh
from holdfast.compaction.plan import Plan
from holdfast.compaction.statements import statements
from holdfast.compaction.working import Working, one_line
from holdfast.items import ItemKind, Role
from holdfast.thread import Pointer

NAME = "extractive"
EVIDENCE_KEPT = 24
FROM_A_TOOL = "from the work, not from the user: "

Lines = tuple[tuple[str, Pointer | None], ...]


def draft(plan: Plan, ledger: Ledger, *, focus: str | None = None) -> list[Operation]:
    """Return what this compaction changes in the ledger: a person's statements, then the working state."""
    working = plan.working
    return [
        *_said(plan, ledger),
        Refresh(section=Section.ACTIVE, lines=_bindings(plan, ledger)),
        Refresh(section=Section.HANDOFF, lines=_handoff(working, plan, focus=focus)),
        Refresh(section=Section.EVIDENCE, lines=_evidence(working, ledger)),
    ]


def _said(plan: Plan, ledger: Ledger) -> list[Operation]:
    """Return every statement a person made: those of their first message are the objective, the rest is active memory."""
    operations: list[Operation] = []
    section = Section.ACTIVE if ledger.section(Section.OBJECTIVE) else Section.OBJECTIVE
    replaced = {seen.entry.source for seen in plan.replaced}
    for seen in plan.spoken:
        source = seen.entry.source
        if source is None:
            continue
        said = statements(seen.view.said)
        if source not in replaced:
            operations.extend(Hear(text=text, source=source) for text in said)
        elif said:
            operations.extend(Add(section=section, text=text, source=source, speaker=Speaker.USER) for text in said)
            section = Section.ACTIVE
    return operations


def _handoff(working: Working, plan: Plan, *, focus: str | None) -> Lines:
    """Return the plan, open calls, the last error, and what the agent last said if that falls out of view."""
    lines: list[tuple[str, Pointer | None]] = [(f"the user asked to keep in focus: {focus}", None)] if focus else []
    lines.extend((f"open call: {line.text}", line.source) for line in working.open_calls)
    if working.plan:
        lines.append((f"plan: {one_line(working.plan.text)}", working.plan.source))
    if working.last_error:
        lines.append((f"last error: {working.last_error.text}", working.last_error.source))
    kept = [kept.seen.view for kept in plan.tail]
    if not any(view.kind is ItemKind.MESSAGE and view.role is Role.ASSISTANT for view in kept):
        answers = (seen for seen in reversed(plan.replaced) if seen.view.kind is ItemKind.MESSAGE)
        last = next((seen for seen in answers if seen.view.role is Role.ASSISTANT), None)
        if last is not None and last.entry.source is not None:
            lines.append((f"the agent last said: {one_line(last.view.text)}", last.entry.source))
    return tuple(lines)


def _bindings(plan: Plan, ledger: Ledger) -> Lines:
    """Return what came out of a tool and was used again, each value once, this span's last, the newest kept.

    A value that an earlier compaction saw together with its source keeps that line: a later one may only see its use.
    """
    known = [entry for entry in ledger.section(Section.ACTIVE) if entry.speaker is Speaker.COMPUTED]
    lines: dict[str, tuple[str, Pointer | None]] = {
        _value_of(entry.text): (entry.text, entry.sources[-1] if entry.sources else None) for entry in known
    }
    for line in reused(plan.observed):
        text = f"{FROM_A_TOOL}{line.text}"
        kept = lines.pop(_value_of(text), (text, line.source))
        lines[_value_of(text)] = kept
    return tuple(list(lines.values())[-BINDINGS_KEPT:])


def _value_of(text: str) -> str:
    return text.removeprefix(FROM_A_TOOL).split(" — ")[0]


def _evidence(working: Working, ledger: Ledger) -> Lines:
    """Return files and commands, this span's after those of earlier ones, each named once, the newest kept."""
    lines: dict[str, Pointer | None] = {entry.text: entry.sources[-1] for entry in ledger.section(Section.EVIDENCE)}
    fresh = [
        *((f"image: {line.text}", line.source) for line in working.images),
        *((f"file: {line.text}", line.source) for line in working.files),
        *((line.text, line.source) for line in working.commands),
    ]
    for text, source in fresh:
        lines.pop(text, None)
        lines[text] = source
    return tuple(list(lines.items())[-EVIDENCE_KEPT:])
