"""What a thread's records come to, folded in as they come: turns with their outcome, findings, facts about the work.

The journal stands in every checkpoint, so a compaction reads only what came since the last one and still knows the whole story.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from threadkeep.compaction.facts import Facts, Observed, digest_turn, fold
from threadkeep.compaction.findings import KEPT, Finding, find
from threadkeep.compaction.speech import is_acknowledgement
from threadkeep.items import ItemKind, Role

TURNS_KEPT = 12
COMMANDS_TOLD = 3
WORK_KEPT = 6
ASKED_CHARS = 120
ANSWER_CHARS = 400


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a person and what came of it: the agent's last words to it, files changed, commands run."""

    asked: str
    source: str
    answer: str = ""
    answered: str | None = None
    work: tuple[str, ...] = ()


class Journal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything folded in so far; records below `upto` are in it."""

    upto: int = 0
    facts: Facts = msgspec.field(default_factory=Facts)
    turns: tuple[Turn, ...] = ()
    findings: tuple[Finding, ...] = ()

    def in_another_thread(self) -> Journal:
        """Return the journal for a thread that continues this one: it goes on counting from that thread's own first record."""
        return msgspec.structs.replace(self, upto=0, facts=msgspec.structs.replace(self.facts, upto=0, open_calls=()))


def advance(journal: Journal, items: Sequence[Observed]) -> Journal:
    """Return the journal with these items, oldest first, folded in; those it holds already are passed over."""
    fresh = [seen for seen in items if seen.source.ordinal >= journal.upto]
    if not fresh:
        return journal
    turns = list(journal.turns)
    findings = list(journal.findings)
    for run in _turns(fresh):
        first = run[0]
        if _begins_turn(first):
            turns.append(Turn(asked=_on_one_line(first.view.said, ASKED_CHARS), source=str(first.source)))
        final = _final_answer(run)
        for seen in run:
            if _is_answer(seen):
                findings.extend(find(seen.view.text, source=str(seen.source), concludes=seen is final))
        if turns:
            turns[-1] = _with_outcome(turns[-1], run, final)
    return Journal(
        upto=fresh[-1].source.ordinal + 1,
        facts=fold(journal.facts, fresh),
        turns=tuple(turns[-TURNS_KEPT:]),
        findings=tuple(_best(findings)),
    )


def _with_outcome(turn: Turn, run: Sequence[Observed], final: Observed | None) -> Turn:
    done = digest_turn(run)
    told = (*((done.changed,) if done.changed else ()), *done.commands[-COMMANDS_TOLD:])
    work = tuple(dict.fromkeys((*turn.work, *(line.text for line in told))))[-WORK_KEPT:]
    if final is None:
        return msgspec.structs.replace(turn, work=work)
    answer = _on_one_line(final.view.text, ANSWER_CHARS)
    return msgspec.structs.replace(turn, answer=answer, answered=str(final.source), work=work)


def _turns(items: Sequence[Observed]) -> Iterable[list[Observed]]:
    """Yield items turn by turn; the first run may go on with a turn begun before."""
    run: list[Observed] = []
    for seen in items:
        if run and _begins_turn(seen):
            yield run
            run = []
        run.append(seen)
    if run:
        yield run


def _begins_turn(seen: Observed) -> bool:
    view = seen.view
    return view.kind is ItemKind.MESSAGE and view.by_person and not is_acknowledgement(view.said)


def _is_answer(seen: Observed) -> bool:
    return seen.view.kind is ItemKind.MESSAGE and seen.view.role is Role.ASSISTANT and bool(seen.view.text.strip())


def _final_answer(run: Sequence[Observed]) -> Observed | None:
    return next((seen for seen in reversed(run) if _is_answer(seen)), None)


def _best(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings worth keeping, in order: each text once at its newest place, the most telling of too many."""
    newest: dict[str, Finding] = {}
    for finding in findings:
        newest.pop(finding.text, None)
        newest[finding.text] = finding
    latest = list(newest.values())
    if len(latest) <= KEPT:
        return latest
    ranked = sorted(range(len(latest)), key=lambda index: (latest[index].worth, index), reverse=True)[:KEPT]
    return [latest[index] for index in sorted(ranked)]


def _on_one_line(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else f"{flat[: chars - 1].rstrip()}…"
