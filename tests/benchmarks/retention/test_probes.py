"""Probes are blind, balanced, and the same for everyone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from benchmarks.retention.blindness import gives_away, stands
from benchmarks.retention.facts import USER_KINDS, WORK_KINDS, FactKind
from benchmarks.retention.planted_session import Planted
from benchmarks.retention.probes import LETTERS, Probe, make_probes
from benchmarks.retention.run import FAMILIES
from benchmarks.story.lines import find_line, load_demands

SEEDS = (1, 2, 3, 4, 5, 6)


@pytest.fixture(scope="module", params=FAMILIES)
def sessions(request: pytest.FixtureRequest) -> list[Planted]:
    return [FAMILIES[request.param](seed=seed, turns=20, hops=4) for seed in SEEDS]


@pytest.fixture(scope="module")
def probes(sessions: list[Planted]) -> list[Probe]:
    return [probe for session in sessions for probe in make_probes(session.facts, seed=session.seed)]


def test_every_demand_is_known_by_its_sentence() -> None:
    """A demand that is taken for another would be asked another's question."""
    rng = Random(1)
    for line in load_demands():
        said = line.said.format(v=line.value.draw(rng), old=(line.old or line.value).draw(rng), s="Oban")
        assert [each.said for each in load_demands() if each is find_line(said)] == [line.said]


def test_no_question_gives_its_answer_away(probes: list[Probe]) -> None:
    """No question holds an option, nor a word that only the right option has."""
    assert [probe.question for probe in probes if probe.leaks] == []


def test_a_question_with_its_answer_in_it_is_caught() -> None:
    """The check sees a whole value, and one telling word of it in any case."""
    assert gives_away("Is it port 4621?", right="4621", wrong=("4622", "4623"))
    assert gives_away("Which SEAL variable?", right="QB_SEAL_KEY", wrong=("QB_RECEIPT_KEY",))
    assert not gives_away("Which key variable?", right="QB_SEAL_KEY", wrong=("QB_RECEIPT_KEY",))


def test_every_letter_is_right_equally_often(sessions: list[Planted]) -> None:
    """Always answering the same letter scores a quarter, in each session and for every letter."""
    for session in sessions:
        counts = Counter(probe.letter for probe in make_probes(session.facts, seed=session.seed))
        assert set(counts) == set(LETTERS)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_the_letter_names_the_right_option(probes: list[Probe]) -> None:
    """Four different options, the value under its letter, and the value taken back among the wrong ones."""
    for probe in probes:
        assert len(set(probe.options)) == 4
        assert probe.options[LETTERS.index(probe.letter)] == probe.fact.value
        assert probe.fact.stale is None or probe.fact.stale in probe.wrong


def test_every_kind_of_fact_is_planted(sessions: list[Planted]) -> None:
    """All kinds are in every session; nothing long is pasted in the story."""
    missing = {kind for session in sessions for kind in set(FactKind) - {fact.kind for fact in session.facts}}
    assert missing <= {FactKind.BURIED}


def test_a_fact_is_said_and_its_look_alikes_never_are(sessions: list[Planted]) -> None:
    """A value stands in the session by the turn it is due; a user's value in the user's words, a tool's in no user's words."""
    for session in sessions:
        for fact in session.facts:
            turns = session.turns[: fact.due + 1]
            said = "\n".join(turn.user for turn in turns)
            shown = "\n".join(f"{step.arguments}\n{step.output}" for turn in turns for step in turn.steps)
            assert stands(fact.value, said) == (fact.kind in USER_KINDS)
            assert fact.kind in USER_KINDS or stands(fact.value, shown)
            assert not any(stands(like, said) for like in fact.likes)


def test_a_reused_value_is_printed_once_and_taken_by_a_later_call(sessions: list[Planted]) -> None:
    """It stands in one output, and in the arguments of one call of a later turn."""
    for session in sessions:
        for fact in (fact for fact in session.facts if fact.kind is FactKind.TOOL_REUSED):
            steps = [(number, step) for number, turn in enumerate(session.turns) for step in turn.steps]
            printed = [number for number, step in steps if stands(fact.value, step.output)]
            taken = [number for number, step in steps if stands(fact.value, str(step.arguments))]
            assert (len(printed), taken) == (1, [fact.due])
            assert printed[0] <= fact.due


def test_a_value_stands_in_no_other_facts_words(sessions: list[Planted]) -> None:
    """What tells one fact tells no other, so that nothing is kept by accident; work in hand counts in a place of its own."""
    for session in sessions:
        for fact in session.facts:
            others = [other.text for other in session.facts if other is not fact and other.kind not in WORK_KINDS]
            assert [text for text in others if stands(fact.value, text)] == []


def test_a_session_can_be_compacted_after_every_turn() -> None:
    """One hundred hops, fresh work in each."""
    for make in FAMILIES.values():
        session = make(seed=3, turns=100, hops=100)
        assert [len(span) for span in session.spans()] == [1] * 100
        assert len({str(turn.steps) for turn in session.turns}) == 100


def test_a_value_stands_only_as_itself() -> None:
    """A part of a longer number or the number of a record is another value; other scripts and quotes do not hide it."""
    assert not stands("1234", "port 12345, 01234, #1234, x1234")
    assert stands("1234", "port 12345, then `1234`.")
    assert stands("2019年7月12日", "一律写成2019年7月12日这种格式")
