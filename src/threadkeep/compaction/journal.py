"""Collects turns with their outcome, findings and facts from a thread's records, in order.

Every checkpoint holds the journal, so a compaction reads only the records since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from threadkeep.compaction.facts.facts import Facts, ObservedItem, fold, tell_work
from threadkeep.compaction.findings import KEPT, Finding, find_findings, shorten_answer
from threadkeep.compaction.speech import is_acknowledgement
from threadkeep.items import ItemKind, Role

TURNS_KEPT = 12
WORK_KEPT = 6
# A short beginning: the message itself stands in the state or behind it.
ASKED_CHARS = 72


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a person and its outcome: the agent's last answer, files changed, commands run.

    `earlier` is the agent's answer before the person asked it to go on.
    """

    asked: str
    source: str
    earlier: str = ""
    answer: str = ""
    answered: str | None = None
    work: tuple[str, ...] = ()


class Journal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything folded in so far; records below `upto` are in it.

    `first` is the record of the first request, `began` that of the first one the agent used a tool for.
    """

    upto: int = 0
    first: str = ""
    began: str = ""
    facts: Facts = msgspec.field(default_factory=Facts)
    turns: tuple[Turn, ...] = ()
    findings: tuple[Finding, ...] = ()

    def drop_open_calls(self) -> Journal:
        """Return the journal of a history that was rewritten: what its open calls led to may have gone with it."""
        return msgspec.structs.replace(self, facts=msgspec.structs.replace(self.facts, open_calls=()))


def advance(journal: Journal, items: Sequence[ObservedItem]) -> Journal:
    """Return the journal with these items, oldest first, folded in; those it holds already are passed over."""
    fresh = [seen for seen in items if seen.source.ordinal >= journal.upto]
    if not fresh:
        return journal
    turns = list(journal.turns)
    findings = list(journal.findings)
    first, began, facts = journal.first, journal.began, journal.facts
    for run in _split_runs(fresh):
        request = run[0]
        if _is_request(request):
            turns.append(Turn(asked=_shorten_line(request.view.said, ASKED_CHARS), source=str(request.source)))
            first = first or str(request.source)
        elif turns and _is_message(request):
            turns[-1] = _resume_turn(turns[-1])
        if turns and not began and any(seen.view.kind is ItemKind.CALL for seen in run):
            began = turns[-1].source
        spoken = [seen for seen in run if _is_answer(seen) or seen.view.kind is ItemKind.CALL]
        for seen in spoken:
            findings.extend(
                find_findings(_read_words(seen), source=str(seen.source), concludes=_is_answer(seen) and seen is spoken[-1])
            )
        before, facts = facts, fold(facts, run)
        if turns:
            turns[-1] = _record_outcome(turns[-1], tell_work(before, facts), spoken[-1] if spoken else None)
    return Journal(
        upto=fresh[-1].source.ordinal + 1,
        first=first,
        began=began,
        facts=facts,
        turns=tuple(turns[-TURNS_KEPT:]),
        findings=tuple(_select_best(findings)),
    )


def _resume_turn(turn: Turn) -> Turn:
    """Return a turn that a person asked to continue: it has no answer yet, and keeps its earlier one."""
    return msgspec.structs.replace(turn, earlier=turn.answer or turn.earlier, answer="", answered=None)


def _record_outcome(turn: Turn, done: Sequence[str], last: ObservedItem | None) -> Turn:
    """Return a turn with the work that was done; `last` is the agent's last message or call, and only a message answers."""
    work = tuple(dict.fromkeys((*turn.work, *done)))[-WORK_KEPT:]
    if last is None:
        return msgspec.structs.replace(turn, work=work)
    if not _is_answer(last):
        return msgspec.structs.replace(turn, answer="", answered=None, work=work)
    return msgspec.structs.replace(turn, answer=shorten_answer(last.view.text), answered=str(last.source), work=work)


def _split_runs(items: Sequence[ObservedItem]) -> Iterable[list[ObservedItem]]:
    """Yield items from one message of a person to the next; the first run may go on with a turn begun before."""
    run: list[ObservedItem] = []
    for seen in items:
        if run and _is_message(seen):
            yield run
            run = []
        run.append(seen)
    if run:
        yield run


def _is_message(seen: ObservedItem) -> bool:
    return seen.view.kind is ItemKind.MESSAGE and seen.view.by_person


def _is_request(seen: ObservedItem) -> bool:
    return _is_message(seen) and not is_acknowledgement(seen.view.said)


def _is_answer(seen: ObservedItem) -> bool:
    return seen.view.kind is ItemKind.MESSAGE and seen.view.role is Role.ASSISTANT and bool(seen.view.text.strip())


def _read_words(seen: ObservedItem) -> str:
    return seen.view.text if seen.view.kind is ItemKind.MESSAGE else seen.view.words


def _select_best(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings worth keeping, in order: each text once at its newest place, the most telling if there are too many."""
    newest: dict[str, Finding] = {}
    for finding in findings:
        newest.pop(finding.text, None)
        newest[finding.text] = finding
    latest = list(newest.values())
    if len(latest) <= KEPT:
        return latest
    ranked = sorted(range(len(latest)), key=lambda index: (latest[index].worth, index), reverse=True)[:KEPT]
    return [latest[index] for index in sorted(ranked)]


def _shorten_line(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else f"{flat[: chars - 1].rstrip()}…"
