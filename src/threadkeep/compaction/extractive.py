"""The model-free strategy: a person's own words, and what can be computed.

Works offline, is what every other strategy falls back to, and always has something to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from threadkeep.compaction.bindings import FROM_A_TOOL, bounded, origin_in, reused, value_of
from threadkeep.compaction.images import is_picture
from threadkeep.compaction.ledger import BINDING, Ledger, Section, Speaker
from threadkeep.compaction.operations import Add, Hear, Operation, Refresh
from threadkeep.compaction.origins import NOTHING_TRACED, Traced, by_value
from threadkeep.compaction.plan import Plan
from threadkeep.compaction.statements import middle_cut, pastes, statements
from threadkeep.compaction.working import IMAGES_SHOWN, Line, Working, one_line
from threadkeep.items import ItemKind, Role
from threadkeep.thread import Pointer
from threadkeep.tokens import estimate_text

NAME = "extractive"
EVIDENCE_KEPT = 24
TODO, PLAN = "todo: ", "plan: "
PASTED, LINE_END = "pasted by the user: ", " ⏎ "
# What people paste is quoted newest first within this.
QUOTED_TOKENS = 1_000
LEAST_QUOTED_TOKENS = 50
FILE, WRITTEN = "file: ", " (written)"

Lines = tuple[tuple[str, Pointer | None], ...]


def draft(
    plan: Plan,
    ledger: Ledger,
    *,
    focus: str | None = None,
    quoted_tokens: int = QUOTED_TOKENS,
    traced: Traced = NOTHING_TRACED,
) -> list[Operation]:
    """Return what this compaction changes in the ledger: a person's statements, then the working state.

    What people pasted is no statement; the newest pieces are quoted too, within `quoted_tokens`. `traced` tells where values
    came from that calls were given and whose output is out of view.
    """
    working = plan.working
    quoted = _pasted(plan, ledger, budget_tokens=quoted_tokens)
    return [
        *_said(plan, ledger),
        Refresh(section=Section.ACTIVE, lines=_bindings(plan, ledger, traced)),
        Refresh(section=Section.HANDOFF, lines=(*_handoff(working, plan, ledger, focus=focus), *quoted)),
        Refresh(section=Section.EVIDENCE, lines=_evidence(working, ledger)),
    ]


def _said(plan: Plan, ledger: Ledger) -> list[Operation]:
    """Return every statement a person made: those of their first message are the objective, the rest is active memory.

    A message that an earlier compaction quoted is in the ledger already.
    """
    operations: list[Operation] = []
    section = Section.ACTIVE if ledger.section(Section.OBJECTIVE) else Section.OBJECTIVE
    replaced = {seen.entry.source for seen in (*plan.context, *plan.replaced)}
    known = {source for entry in ledger.entries if entry.speaker is Speaker.USER for source in entry.sources}
    for seen in plan.spoken:
        source = seen.entry.source
        if source is None or (source in known and source in replaced):
            continue
        said = statements(seen.view.said)
        if source not in replaced:
            operations.extend(Hear(text=text, source=source) for text in said)
        elif said:
            operations.extend(Add(section=section, text=text, source=source, speaker=Speaker.USER) for text in said)
            section = Section.ACTIVE
    return [*operations, *_noted_since(operations, ledger)]


def _noted_since(operations: Iterable[Operation], ledger: Ledger) -> list[Operation]:
    """Return what a user noted beside the conversation after things that only now come into the ledger: it may change them."""
    first = min((each.source.ordinal for each in operations if isinstance(each, Add)), default=None)
    if first is None:
        return []
    said = (entry for entry in ledger.entries if entry.speaker is Speaker.USER and entry.section in BINDING and entry.sources)
    return [Hear(text=each.text, source=each.sources[-1]) for each in said if each.sources[-1].ordinal > first]


def _handoff(working: Working, plan: Plan, ledger: Ledger, *, focus: str | None) -> Lines:
    """Return open calls, what is to be done, the last error, and what the agent last said if that falls out of view."""
    lines: list[tuple[str, Pointer | None]] = [(f"the user asked to keep in focus: {focus}", None)] if focus else []
    lines.extend((f"open call: {line.text}", line.source) for line in working.open_calls)
    lines.extend(_to_do(working, ledger))
    if working.last_error:
        lines.append((f"last error: {working.last_error.text}", working.last_error.source))
    kept = [kept.seen.view for kept in plan.tail]
    if not any(view.kind is ItemKind.MESSAGE and view.role is Role.ASSISTANT for view in kept):
        answers = (seen for seen in reversed(plan.replaced) if seen.view.kind is ItemKind.MESSAGE)
        last = next((seen for seen in answers if seen.view.role is Role.ASSISTANT), None)
        if last is not None and last.entry.source is not None:
            lines.append((f"the agent last said: {one_line(last.view.text)}", last.entry.source))
    return tuple(lines)


def _to_do(working: Working, ledger: Ledger) -> Lines:
    """Return what the agent's newest list leaves open; where this span holds none, what the last compaction knew of one."""
    if working.todos is not None:
        return tuple((f"{TODO}{line.text}", line.source) for line in working.todos)
    if working.plan is not None:
        return ((f"{PLAN}{one_line(working.plan.text)}", working.plan.source),)
    known = (entry for entry in ledger.section(Section.HANDOFF) if entry.speaker is Speaker.COMPUTED)
    return tuple((e.text, e.sources[-1] if e.sources else None) for e in known if e.text.startswith((TODO, PLAN)))


def _pasted(plan: Plan, ledger: Ledger, *, budget_tokens: int) -> Lines:
    """Return what people pasted into messages that leave the window, the newest that fit, oldest first."""
    kept_words = plan.kept_words
    fresh = [
        (f"{PASTED}{LINE_END.join(piece.splitlines())}", seen.entry.source)
        for seen in plan.spoken
        if seen.entry.source is not None and seen.entry.source not in kept_words
        for piece in pastes(seen.view.said)
    ]
    known = [
        (entry.text, entry.sources[-1] if entry.sources else None)
        for entry in ledger.section(Section.HANDOFF)
        if entry.speaker is Speaker.COMPUTED and entry.text.startswith(PASTED)
    ]
    kept: list[tuple[str, Pointer | None]] = []
    for text, source in reversed([*known, *fresh]):
        room = budget_tokens - sum(estimate_text(told) for told, _ in kept)
        if room < LEAST_QUOTED_TOKENS:
            break
        kept.append((text if estimate_text(text) <= room else middle_cut(text, chars=room * 3), source))
    return tuple(reversed(kept))


def known_bindings(ledger: Ledger) -> dict[str, Line]:
    """Return what the ledger tells of values that came out of a tool, each line by its value."""
    known = (entry for entry in ledger.section(Section.ACTIVE) if entry.speaker is Speaker.COMPUTED and entry.sources)
    return {value_of(entry.text): Line(text=entry.text, source=entry.sources[-1]) for entry in known}


def _bindings(plan: Plan, ledger: Ledger, traced: Traced) -> Lines:
    """Return what came out of a tool and was used again, each value once, this span's last, the newest kept.

    A value that an earlier compaction saw together with its source keeps that line: a later one may only see its use.
    """
    lines = known_bindings(ledger)
    origins = {value: Line(text=quoted, source=line.source) for value, line in lines.items() if (quoted := origin_in(line.text))}
    told = (entry.text for entry in ledger.entries if entry.speaker is Speaker.USER)
    fresh = reused(plan.observed, told=told, since=traced.since, origins=by_value(traced.origins) | origins)
    for line in fresh:
        text = f"{FROM_A_TOOL}{line.text}"
        kept = lines.pop(value_of(text), None)
        # Where an earlier compaction saw where it came from, and this one only sees it used, the earlier line tells more.
        older = kept is not None and origin_in(kept.text) is not None and origin_in(text) is None
        lines[value_of(text)] = kept if kept is not None and older else Line(text=text, source=line.source)
    return tuple((line.text, line.source) for line in bounded(list(lines.values())))


def _evidence(working: Working, ledger: Ledger) -> Lines:
    """Return files, commands and pictures, this span's after those of earlier ones, each named once, the newest kept.

    Pictures have room of their own: files come and go faster. A file that was written once is marked as written from then on.
    """
    known = {entry.text: entry.sources[-1] if entry.sources else None for entry in ledger.section(Section.EVIDENCE)}
    written = {_path_of(text) for text in known if text.endswith(WRITTEN)} | working.written
    pictures = {text: source for text, source in known.items() if is_picture(text)}
    pictures = _renewed(pictures, ((line.text, line.source) for line in working.images))
    lines = {_marked(text, written): source for text, source in known.items() if text not in pictures}
    files = ((_marked(f"{FILE}{line.text}", written), line.source) for line in working.files)
    lines = _renewed(lines, (*files, *((line.text, line.source) for line in working.commands)))
    surplus = len(lines) - EVIDENCE_KEPT
    if surplus > 0:
        # What was changed outlasts what was only looked at.
        oldest = sorted(lines, key=lambda text: text.endswith(WRITTEN))[:surplus]
        lines = {text: source for text, source in lines.items() if text not in set(oldest)}
    return (*lines.items(), *list(pictures.items())[-IMAGES_SHOWN:])


def _renewed(lines: dict[str, Pointer | None], fresh: Iterable[tuple[str, Pointer]]) -> dict[str, Pointer | None]:
    """Return lines with fresh ones behind them, each once, in its newest place."""
    renewed = dict(lines)
    for text, source in fresh:
        renewed.pop(text, None)
        renewed[text] = source
    return renewed


def _marked(text: str, written: Set[str]) -> str:
    path = _path_of(text)
    return f"{FILE}{path}{WRITTEN}" if path in written else text


def _path_of(text: str) -> str:
    """Return the path of a line that names a file; empty for any other."""
    return text.removeprefix(FILE).removesuffix(WRITTEN) if text.startswith(FILE) else ""
