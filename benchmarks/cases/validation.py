"""Finds what is wrong with a manifest. A case that can be answered without its session is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks.cases.manifest import CATEGORIES, WORKING_STATE, Case, Manifest, SessionRecipe
from benchmarks.cases.recipes import said_by, text_of
from benchmarks.retention.blindness import gives_away, stands
from threadkeep.errors import BadInput

OPTIONS = 4


def find_problems(manifest: Manifest) -> list[str]:
    """Return everything that is wrong, each with the session or case it is about; nothing, if all is well."""
    ids = Counter(case.id for _, case in manifest.cases)
    found = [f"{name}: {count} cases have this id" for name, count in ids.items() if count > 1]
    for session in manifest.sessions:
        found += [f"session {session.id}: {trouble}" for trouble in _of_session(session)]
        text = text_of(session) if session.turns else ""
        found += [f"{case.id}: {trouble}" for case in session.cases for trouble in _of_case(case, session, text)]
    return found


def check_manifest(manifest: Manifest) -> Manifest:
    """Return the manifest if nothing is wrong with it.

    Raises:
        BadInput: Something is; the message says all of it.
    """
    found = find_problems(manifest)
    if found:
        raise BadInput(f"the manifest cannot be used: {'; '.join(found)}")
    return manifest


def _of_session(session: SessionRecipe) -> Iterator[str]:
    hops = [turn.hop for turn in session.turns]
    if hops != sorted(hops) or set(hops) != set(range(1, session.hops + 1)):
        yield f"hops must rise from 1 without a gap, not {hops}"
    if sorted(bundle.hop for bundle in session.work) != list(range(1, session.hops + 1)):
        yield "each hop needs exactly one bundle of work"
    if not session.cases:
        yield "it has no case"
    for bundle in session.work:
        yield from (f"the work of hop {bundle.hop} has no {name}" for name, value in bundle.parts().items() if not value.strip())


def _of_case(case: Case, session: SessionRecipe, text: str) -> Iterator[str]:
    if not case.id.strip() or not case.question.strip():
        yield "its id or question is blank"
    if case.category not in CATEGORIES or case.category == WORKING_STATE:
        yield f"{case.category!r} is no category of a written case; there are {', '.join(CATEGORIES)}"
    match case.form:
        case "single_choice":
            yield from _of_choice(case, text)
        case "short_answer":
            yield from _of_short_answer(case)
        case "abstention":
            if case.turn or case.evidence or case.right or case.accepted:
                yield "what nobody said has no turn, evidence or answer"
        case "working_state":
            yield "working state is asked from the work of each hop, not from a case"
    if case.form in ("single_choice", "short_answer"):
        yield from _of_provenance(case, session)


def _of_choice(case: Case, text: str) -> Iterator[str]:
    if not case.right or len({case.right, *case.wrong}) != OPTIONS:
        yield f"it needs {OPTIONS} different options, one of them right"
        return
    for name, options in (("hard_fail", case.hard_fail), ("also_said", case.also_said), ("stale", [case.stale or case.wrong[0]])):
        yield from (
            f"{name} names {option!r}, which is none of its wrong options" for option in options if option not in case.wrong
        )
    if gives_away(case.question, right=case.right, wrong=case.wrong):
        yield "its question gives the right option away"
    silent = [option for option in case.wrong if option != case.stale and option not in case.also_said]
    yield from (f"its wrong option {option!r} is said in the session" for option in silent if stands(option, text))
    said = [option for option in case.also_said if not stands(option, text)]
    yield from (f"{option!r} is told to be said in the session and is not" for option in said)
    if case.stale is not None and not stands(case.stale, text):
        yield f"its stale option {case.stale!r} is not said in the session"
    if case.accepted:
        yield "a single choice has no accepted answers"


def _of_short_answer(case: Case) -> Iterator[str]:
    if not case.accepted or any(not answer.strip() for answer in case.accepted):
        yield "it needs accepted answers, none of them blank"
    if not 0 <= case.abstain_score < 1:
        yield f"abstaining scores {case.abstain_score}, which is not from 0 to below 1"
    if any(answer.casefold() in case.question.casefold() for answer in case.accepted):
        yield "its question holds an accepted answer"
    if case.right or case.wrong or case.hard_fail:
        yield "a short answer has no options"


def _of_provenance(case: Case, session: SessionRecipe) -> Iterator[str]:
    if not 1 <= case.turn <= len(session.turns):
        yield f"it is told to be said in turn {case.turn}, and the session has {len(session.turns)}"
        return
    said = said_by(session, turn=case.turn)[case.speaker]
    if not case.evidence or case.evidence not in said:
        yield f"its evidence does not stand in turn {case.turn} where the {case.speaker} speaks"
    answers = [case.right] if case.form == "single_choice" else case.accepted
    if not any(answer in case.evidence for answer in answers):
        yield "its evidence does not hold the answer"
