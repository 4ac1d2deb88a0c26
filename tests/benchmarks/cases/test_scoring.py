"""Replies and what they are worth."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from benchmarks.cases.grades import Score, score
from benchmarks.cases.manifest import load_manifest
from benchmarks.cases.probes import LETTERS, Probe, find_probe, make_probes

PROBES = make_probes(load_manifest(), seed=1)
NOTHING = Score(score=0.0, verdict="parse_error")


def probe(name: str) -> Probe:
    found = find_probe(PROBES, name)
    assert found is not None
    return found


def with_accepted(name: str, answers: list[str]) -> Probe:
    asked = probe(name)
    assert asked.case is not None
    return replace(asked, case=msgspec.structs.replace(asked.case, accepted=answers))


def choosing(asked: Probe, option: str) -> str:
    return json.dumps({"option": LETTERS[asked.options.index(option)]})


def test_the_right_option_passes_and_the_one_that_was_taken_back_is_a_hard_fail() -> None:
    """Another wrong option only fails."""
    asked = probe("ferry-time-zone")
    assert score(asked, choosing(asked, "Atlantic/Ronasay")) == Score(score=1.0, verdict="pass")
    assert score(asked, choosing(asked, "Europe/Skerryvore")) == Score(score=0.0, verdict="fail", hard_fail=True)
    assert score(asked, choosing(asked, "Europe/Fetlar")) == Score(score=0.0, verdict="fail")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "B",
        "no idea",
        '{"option": "E"}',
        '{"option": 2}',
        '{"option": ""}',
        "[1]",
        '{"x": 1}',
        '{"option": "BC"}',
        '{"option": "ABCD"}',
    ],
)
def test_a_reply_that_cannot_be_read_is_worth_nothing_and_no_hard_fail(reply: str) -> None:
    """It is counted by itself."""
    assert score(probe("ferry-time-zone"), reply) == NOTHING


def test_an_object_in_the_middle_of_words_is_found() -> None:
    """From the first brace to the last."""
    asked = probe("ferry-time-zone")
    said = f"Sure!\n```json\n{choosing(asked, 'Atlantic/Ronasay')}\n```"
    assert score(asked, said) == Score(score=1.0, verdict="pass")


def test_a_short_answer_passes_is_abstained_from_or_fails() -> None:
    """Case and spaces do not count; an answer that is right is right even where it is doubted."""
    asked = probe("ferry-crew-locker")
    assert score(asked, '{"known": true, "answer": " HOOK  31-b "}') == Score(score=1.0, verdict="pass")
    assert score(asked, '{"known": false, "answer": "31-B"}') == Score(score=1.0, verdict="pass")
    assert score(asked, '{"known": false, "answer": ""}') == Score(score=0.25, verdict="abstain")
    assert score(asked, '{"known": true, "answer": "Not sure."}') == Score(score=0.25, verdict="abstain")
    assert score(asked, '{"known": true, "answer": "13-B"}') == Score(score=0.0, verdict="fail")
    assert score(probe("archive-door"), '{"known": true, "answer": "1-1-1"}') == Score(score=0.0, verdict="fail", hard_fail=True)


def test_what_nobody_said_is_right_only_where_it_is_abstained_from() -> None:
    """An invented answer does harm."""
    asked = probe("ferry-fuel-price")
    assert score(asked, '{"known": false, "answer": ""}') == Score(score=1.0, verdict="pass")
    assert score(asked, '{"known": true, "answer": "1.20"}') == Score(score=0.0, verdict="fail", hard_fail=True)


@pytest.mark.parametrize("case", ["ferry-fuel-price", "ferry-crew-locker"])
@pytest.mark.parametrize(
    "reply", ["{}", '{"option": "A"}', '{"known": true}', '{"known": "false"}', '{"answer": ["8443"]}', '{"answer": {}}']
)
def test_who_gives_neither_an_answer_nor_says_that_there_is_none_has_said_nothing(case: str, reply: str) -> None:
    """That is no abstention: it would be worth a whole point where nobody said anything."""
    assert score(probe(case), reply) == NOTHING


def test_a_number_is_what_it_is_as_text() -> None:
    """As it was written; a truth value is no answer, and null says that there is none."""
    numbered = with_accepted("ferry-crew-locker", ["46", "4.50"])
    assert score(numbered, '{"known": true, "answer": 46}') == Score(score=1.0, verdict="pass")
    assert score(numbered, '{"known": true, "answer": 4.50}') == Score(score=1.0, verdict="pass")
    assert score(numbered, '{"known": true, "answer": 47}') == Score(score=0.0, verdict="fail")
    assert score(probe("ferry-fuel-price"), '{"known": true, "answer": 42}') == Score(score=0.0, verdict="fail", hard_fail=True)
    assert score(numbered, '{"known": true, "answer": true}') == NOTHING
    assert score(numbered, '{"known": true, "answer": null}') == Score(score=0.25, verdict="abstain")


def test_working_state_counts_a_quarter_a_part() -> None:
    """A wrong file or step does harm; one left empty does not."""
    asked = probe("ferry-work-2")
    assert asked.bundle is not None
    right = asked.bundle.parts()
    assert score(asked, json.dumps(right)) == Score(score=1.0, verdict="pass")
    assert score(asked, json.dumps({**right, "blocker": ""})) == Score(score=0.75, verdict="partial")
    assert score(asked, json.dumps({**right, "file": "other.py"})) == Score(score=0.75, verdict="partial", hard_fail=True)
    assert score(asked, '{"file": "", "next_step": ""}') == Score(score=0.0, verdict="fail")
