"""Findings: sentences of the agent's answers that name or conclude something, word for word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.compaction.findings import FINDING_CHARS, PER_MESSAGE, find


def found(text: str, *, concludes: bool = True) -> list[str]:
    return [finding.text for finding in find(text, source="t#7", concludes=concludes)]


@pytest.mark.parametrize(
    "sentence",
    [
        "The root cause is a stale lock in `cache/index.lock`.",
        "Job 8841 failed because the token had expired.",
        "I decided to keep SQLite instead of DuckDB.",
        "Measured: 412 ms before, 38 ms after the index on tide_id.",
        "Ruled out the DNS cache: resolver_v2 returns the right address.",
        "The deploy id is dep-20261118-a7, in region eu-west-3.",
    ],
)
def test_what_an_agent_concluded_measured_or_named_is_found(sentence: str) -> None:
    """A cause, a decision, a figure, an id; marked with the record it stands in."""
    assert found(sentence) == [sentence]
    assert [finding.source for finding in find(sentence, source="t#7", concludes=True)] == ["t#7"]


@pytest.mark.parametrize(
    "sentence",
    [
        "Let me look at src/parser.py and tests/test_parser.py first.",
        "I'll run `make test` and fix what fails in api_v2.",
        "Should I use port 8080 or port 9090 for staging_eu?",
        "Here is what failed in run 12 of build-7:",
        "Done, all good now.",
        "> The root cause is a stale lock in `cache/index.lock`.",
        "| tide_id | 412 ms | 38 ms | because |",
    ],
)
def test_announcements_questions_quotations_and_small_talk_are_not(sentence: str) -> None:
    """They found nothing out."""
    assert found(sentence) == []


def test_code_blocks_hold_no_findings_and_what_stands_around_them_does() -> None:
    """Only sentences, in order."""
    text = "The cause is lock_a in db-3.\n```\nbecause x_1 = 7 failed in db-4.\n```\nIt is fixed in commit 91ab3f of core_db."
    assert found(text) == ["The cause is lock_a in db-3.", "It is fixed in commit 91ab3f of core_db."]


def test_a_message_gives_its_most_telling_sentences_in_order() -> None:
    """A long report does not crowd out the others."""
    failed = [f"Part_{number} failed because of errno {number} in run-{number}." for number in range(100, 112)]
    assert found(" ".join(("The index is built now.", *failed, *failed))) == failed[:PER_MESSAGE]
    assert found(f"{failed[0]} " * 10) == failed[:1]


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=600), concludes=st.booleans())
def test_every_finding_is_the_agents_own_words(text: str, *, concludes: bool) -> None:
    """On one line, of a readable length, and found in its message."""
    sentences = found(text, concludes=concludes)
    flat = " ".join(text.split())
    assert len(sentences) <= PER_MESSAGE
    assert all(sentence in flat and len(sentence) <= FINDING_CHARS for sentence in sentences)
