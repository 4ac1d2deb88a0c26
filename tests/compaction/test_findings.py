"""Findings: sentences of the agent's answers that name or conclude something, word for word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.compaction.journal import FINDING_CHARS, GIST_CHARS, PER_ANSWER, PER_REMARK, find_findings, shorten_answer


def found(text: str, *, concludes: bool = True) -> list[str]:
    return [finding.text for finding in find_findings(text, source="t#7", concludes=concludes)]


@pytest.mark.parametrize(
    "sentence",
    [
        "The root cause is a stale lock in `cache/index.lock`.",
        "Job 8841 failed because the token had expired.",
        "I decided to keep SQLite instead of DuckDB.",
        "Measured: 412 ms before, 38 ms after the index on tide_id.",
        "Ruled out the DNS cache: resolver_v2 returns the right address.",
        "The deploy id is dep-20261118-a7, in region eu-west-3.",
        "The cause is lock_a in db-3.",
        "The root cause is that the pool hands out closed sockets.",
        "Anthropic requires `tool_result` to follow `tool_use` at once, and a message in between breaks that",
        "根本原因是连接池返回了已经关闭的套接字。",
        "Основная причина в том, что пул отдаёт закрытые сокеты.",
        "The next step failed (see `run.log`), because the disk of db-3 is full.",
    ],
)
def test_what_an_agent_concluded_measured_or_named_is_found(sentence: str) -> None:
    """A cause, a decision, a figure, an id; marked with the record it stands in."""
    assert found(sentence) == [sentence]
    assert [finding.source for finding in find_findings(sentence, source="t#7", concludes=True)] == ["t#7"]


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
        "## The root cause of issue 412 is a stale lock.",
        "- Modified: `src/tides.py`",
        "- **AgentSession** (885 lines) - the shared core",
        "**Flight HAT218 (JFK to ATL)**",
        "- Departure: 04:00 AM from DEN",
        "1. All selector UIs (thinking, model, theme, session, branch, oauth, queue)",
        "I see your follow-up question.",
        "I can help you with that.",
        "If you need any further assistance, feel free to ask!",
        "Next is WP14: Create main-new.ts.",
        "It is all done now and works like a charm!",
        "(see `gh pr create --title x` for the form of it).",
        "<think>The cause may be lock_a in db-3.</think>",
        "If so, please confirm the option number, and I will guide you through the next steps.",
    ],
)
def test_announcements_questions_fragments_and_small_talk_are_not(sentence: str) -> None:
    """They found nothing out, or do not stand alone."""
    assert found(sentence) == []


def test_code_blocks_hold_no_findings_and_what_stands_around_them_does() -> None:
    """Only sentences, in order."""
    text = "The cause is lock_a in db-3.\n```\nbecause x_1 = 7 failed in db-4.\n```\nIt is fixed in commit 91ab3f of core_db."
    assert found(text) == ["The cause is lock_a in db-3.", "It is fixed in commit 91ab3f of core_db."]


def test_an_answer_gives_its_most_telling_sentences_in_order() -> None:
    """A long report does not crowd out the others, and a remark on the way gives one."""
    failed = [f"Part_{number} failed because of errno {number} in run-{number}, as expected." for number in range(100, 112)]
    assert found(" ".join(("The index is built now, as you wanted it.", *failed, *failed))) == failed[:PER_ANSWER]
    assert found(" ".join(failed), concludes=False) == failed[:PER_REMARK]
    assert found(f"{failed[0]} " * 10) == failed[:1]


@pytest.mark.parametrize(
    ("remark", "tells"),
    [
        ("The load balancer is not the culprit: I swapped it and the failure stayed.", True),
        ("I queued the long benchmark under run r-81412.", True),
        ("We've completed WP1-WP10.", False),
        ("Now WP9 adds the session methods to `agent.ts` and its tests.", False),
        ("There are many errors related to the old methods.", False),
    ],
)
def test_more_is_asked_of_a_remark_on_the_way(remark: str, *, tells: bool) -> None:
    """Most of them tell what comes next."""
    assert bool(found(remark, concludes=False)) is tells


def test_an_abbreviation_ends_no_sentence() -> None:
    """A sentence is not cut in its middle."""
    sentence = 'Pass a shorter list (e.g. `["last_30_days"]`) to the hook so that nothing is loaded twice.'
    assert found(sentence) == [sentence]


def test_the_gist_of_an_answer_is_its_beginning() -> None:
    """With the short sentence that decides what the rest means, without headings and code, cut at a readable length."""
    cause = "The query never ran again, because the sheet passed `initialTeam` to the cache as fresh data."
    fix = "Now `useTeamWithStats` treats it as stale."
    assert shorten_answer(f"## Root cause\nNot yet. {cause}\n```\ncode()\n```\n- {fix}") == f"Not yet. {cause} {fix}"
    assert shorten_answer(f"{cause} " * 9).startswith(f"{cause} {cause} ")
    assert len(shorten_answer(f"{cause} " * 9)) <= GIST_CHARS


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("Done. The flow now:\n1. Agent streams\n2. User runs `!ls`\n", "Done. The flow now: Agent streams; User runs `!ls`"),
        ("Found 2 files.", "Found 2 files."),
        ("👍", ""),
        ("Ok", ""),
        ("<think>hm</think>", ""),
    ],
)
def test_the_gist_of_a_short_answer_or_a_list_is_its_beginning(answer: str, told: str) -> None:
    """And of nothing it is nothing."""
    assert shorten_answer(answer) == told


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=600), concludes=st.booleans())
def test_every_finding_is_the_agents_own_words(text: str, *, concludes: bool) -> None:
    """On one line, of a readable length, and found in its message."""
    sentences = found(text, concludes=concludes)
    flat = " ".join(text.split())
    assert len(sentences) <= (PER_ANSWER if concludes else PER_REMARK)
    assert len(shorten_answer(text)) <= max(GIST_CHARS, FINDING_CHARS)
    assert all(sentence in flat and len(sentence) <= FINDING_CHARS for sentence in sentences)
