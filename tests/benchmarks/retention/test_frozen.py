"""The family that nothing is tuned to: it stays as it was, and is as varied as it claims to be."""

from __future__ import annotations

import re
from dataclasses import asdict
from hashlib import blake2b

import msgspec
import pytest

from benchmarks.frozen import frozen_session
from benchmarks.frozen.lines import DOMAINS, load_domain, load_foreign_lines
from benchmarks.frozen.shapes import SHAPES
from benchmarks.retention.facts import TOOL_KINDS, USER_KINDS, FactKind
from benchmarks.retention.planted_session import Planted
from benchmarks.retention.sessions import planted_session

SEEDS = (1, 2, 3, 4)
# Changing it makes every figure from before incomparable; whoever does says so in docs/figures.md.
DIGEST = "d65a94675647f29712b7d945f22bc850"


@pytest.fixture(scope="module")
def sessions() -> list[Planted]:
    return [frozen_session(seed=seed, turns=40, hops=8) for seed in SEEDS]


def test_it_stays_as_it_was(sessions: list[Planted]) -> None:
    """What it generates has the digest it was frozen with."""
    made = b"".join(msgspec.json.encode(asdict(session)) for session in sessions)
    assert blake2b(made, digest_size=16).hexdigest() == DIGEST


def test_four_seeds_are_four_kinds_of_work(sessions: list[Planted]) -> None:
    """Each has its own domain, tools and people."""
    tools = [frozenset(step.tool for turn in session.turns for step in turn.steps) for session in sessions]
    assert len(set(tools)) == len({str(session.opening) for session in sessions}) == len(DOMAINS)


def test_it_shares_no_sentence_with_the_story(sessions: list[Planted]) -> None:
    """No fact is said, and no question asked, in words of the other family; nor does it use that family's tools."""
    story = planted_session(seed=1, turns=20, hops=4)
    ours = {text for session in sessions for fact in session.facts for text in (fact.text, fact.question)}
    assert ours.isdisjoint({text for fact in story.facts for text in (fact.text, fact.question)})
    used = {step.tool for session in sessions for turn in session.turns for step in turn.steps}
    assert used & {step.tool for turn in story.turns for step in turn.steps} <= {"read_file", "grep"}


def test_six_languages_are_in_every_session(sessions: list[Planted]) -> None:
    """Each of them in words of its own, and some of them taken back in the same language."""
    assert {line.lang for line in load_foreign_lines().said} == {"zh", "de", "es", "ja", "ru", "ar"}
    scripts = [r"[\u4e00-\u9fff]", r"[äöüß]", r"[áéíóúñ¿]", r"[\u3040-\u30ff]", r"[\u0400-\u04ff]", r"[\u0600-\u06ff]"]
    for session in sessions:
        foreign = [fact.question for fact in session.facts if fact.kind is FactKind.FOREIGN]
        assert [any(re.search(script, question) for question in foreign) for script in scripts[2:]] == [True] * 4
    assert any(fact.stale for session in sessions for fact in session.facts if fact.kind is FactKind.FOREIGN)


def test_values_have_many_shapes() -> None:
    """Numbers, words, paths, dates, durations, addresses, quoted phrases, versions and more, also where only a tool said them."""
    said = {line.v for name in DOMAINS for line in load_domain(name).said}
    printed = {line.v for name in DOMAINS for line in (*load_domain(name).reused, *load_domain(name).unused)}
    assert min(len(said), len(printed)) >= 18
    assert said | printed | {line.v for line in load_foreign_lines().said} == set(SHAPES)


def test_a_message_can_carry_several_facts(sessions: list[Planted]) -> None:
    """In every session some message says three and more."""
    for session in sessions:
        said = [fact.text for fact in session.facts if fact.kind in USER_KINDS]
        assert max(sum(text in turn.user for text in said) for turn in session.turns) >= 3


def test_a_rule_can_stand_in_the_middle_of_a_page(sessions: list[Planted]) -> None:
    """A kilobyte of other sentences around it, some before and some after."""
    for session in sessions:
        for fact in (fact for fact in session.facts if fact.kind is FactKind.BURIED):
            message = session.turns[fact.due].user
            before, _, after = message.partition(fact.text)
            assert min(len(before), len(after)) > 200
            assert len(message) > 1_000


def test_look_alikes_are_shown_by_tools(sessions: list[Planted]) -> None:
    """The values a user's one must be told apart from stand in outputs, and in no message."""
    for session in sessions:
        outputs = "\n".join(step.output for turn in session.turns for step in turn.steps)
        for fact in (fact for fact in session.facts if fact.kind is FactKind.LOOK_ALIKE):
            assert all(like in outputs for like in fact.likes)


def test_tools_say_nothing_a_user_said(sessions: list[Planted]) -> None:
    """A user's value stands in no call and no output; a tool's value in no message."""
    for session in sessions:
        users = "\n".join(turn.user for turn in session.turns)
        tools = "\n".join(f"{step.arguments}\n{step.output}" for turn in session.turns for step in turn.steps)
        for fact in session.facts:
            if fact.kind in USER_KINDS:
                assert fact.value not in tools
            elif fact.kind in TOOL_KINDS:
                assert fact.value not in users


def test_a_short_session_is_refused() -> None:
    """Fewer turns than a long session has, or than it has hops."""
    with pytest.raises(ValueError, match="at least 10 turns"):
        frozen_session(seed=1, turns=5, hops=1)
    with pytest.raises(ValueError, match="20 hops need"):
        frozen_session(seed=1, turns=12, hops=20)
