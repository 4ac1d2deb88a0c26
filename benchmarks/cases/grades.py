"""Grades an answer: right or wrong, known or not, harmful or not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.cases.probes import LETTERS, PARTS, Probe

Verdict = Literal["pass", "fail", "abstain", "partial", "parse_error", "run_error"]

ABSTENTIONS = frozenset(
    (
        "",
        "unknown",
        "not known",
        "not sure",
        "uncertain",
        "cannot determine",
        "can't determine",
        "unable to determine",
        "not specified",
        "不知道",
        "不确定",
        "无法确定",
    )
)
# Wrong about these, an agent goes on with the wrong thing.
HARMFUL_PARTS = ("file", "next_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """From 0 to 1, why, and whether the answer would do harm."""

    score: float
    verdict: Verdict
    hard_fail: bool = False


UNREADABLE = Score(score=0.0, verdict="parse_error")


def score(probe: Probe, reply: str) -> Score:
    """Return what a reply is worth. One that cannot be read is worth nothing, and is no hard fail."""
    answer = parsed(reply)
    if answer is None:
        return UNREADABLE
    match probe.form:
        case "single_choice":
            return _of_choice(probe, answer)
        case "short_answer":
            return _of_short_answer(probe, answer)
        case "abstention":
            return _of_unsaid(answer)
        case "working_state":
            return _of_work(probe, answer)


def parsed(reply: str) -> dict[str, Any] | None:
    """Return the JSON object a reply is, or else the one between its first and last brace; numbers as the text they are."""
    for text in (reply, reply[reply.find("{") : reply.rfind("}") + 1]):
        try:
            found = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None


def normal(text: object) -> str:
    """Return a text as it is compared: lower case, single spaces."""
    return " ".join(text.casefold().split()) if isinstance(text, str) else ""


def _of_choice(probe: Probe, answer: dict[str, Any]) -> Score:
    assert probe.case is not None
    letter = answer.get("option")
    chosen = dict(zip(LETTERS, probe.options, strict=True)).get(letter.strip().upper()) if isinstance(letter, str) else None
    if chosen is None:
        return UNREADABLE
    if chosen == probe.case.right:
        return Score(score=1.0, verdict="pass")
    return Score(score=0.0, verdict="fail", hard_fail=chosen in probe.case.hard_fail)


def _of_short_answer(probe: Probe, answer: dict[str, Any]) -> Score:
    assert probe.case is not None
    if not _says(answer):
        return UNREADABLE
    # Before abstention: a right answer with a doubt is still right.
    if normal(answer.get("answer")) in {normal(accepted) for accepted in probe.case.accepted}:
        return Score(score=1.0, verdict="pass")
    if _abstains(answer):
        return Score(score=probe.case.abstain_score, verdict="abstain")
    return Score(score=0.0, verdict="fail", hard_fail=probe.case.hard_fail_on_wrong)


def _of_unsaid(answer: dict[str, Any]) -> Score:
    if not _says(answer):
        return UNREADABLE
    return Score(score=1.0, verdict="pass") if _abstains(answer) else Score(score=0.0, verdict="fail", hard_fail=True)


def _says(answer: dict[str, Any]) -> bool:
    """Whether an answer is given, or is said not to be known; an object that does neither abstains from nothing."""
    return answer.get("known") is False or ("answer" in answer and isinstance(answer["answer"], str | None))


def _abstains(answer: dict[str, Any]) -> bool:
    return answer.get("known") is False or normal(answer.get("answer")).rstrip(".") in ABSTENTIONS


def _of_work(probe: Probe, answer: dict[str, Any]) -> Score:
    assert probe.bundle is not None
    told = {part: normal(answer.get(part)) for part in PARTS}
    right = {part: normal(value) for part, value in probe.bundle.parts().items()}
    matched = sum(told[part] == right[part] for part in PARTS)
    harm = any(told[part] and told[part] != right[part] for part in HARMFUL_PARTS)
    verdict: Verdict = "pass" if matched == len(PARTS) else "partial" if matched else "fail"
    return Score(score=matched / len(PARTS), verdict=verdict, hard_fail=harm)
