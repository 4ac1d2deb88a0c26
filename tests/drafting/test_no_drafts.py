"""Answers that are no drafts, whatever they look like; and drafts that only quote one."""

from __future__ import annotations

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import Speech, play

from threadkeep import Threadkeep
from threadkeep.compaction.report import CompactionReport
from threadkeep.testing.scripted_model import Calls, ScriptedModel, Step, says
from threadkeep.threads import Attempt

pytestmark = pytest.mark.anyio

ROOM = 200_000
ON_THE_WAY = "Let me look at the file first."
APOLOGY = "I'm sorry, but I can't help with that."
APOLOGY_IN_GERMAN = "Es tut mir leid, aber dabei kann ich nicht helfen."
LONG_SUMMARY = " ".join(f"Part {number} of the parser was read and its tests pass." for number in range(30))
LONG_SUMMARY_IN_GERMAN = " ".join(f"Teil {number} des Parsers ist gelesen, seine Tests laufen." for number in range(30))
EMPTY_BLOCK = "<session_compact_state>\n</session_compact_state>"


def calls(text: str) -> Calls:
    return Calls(tool="shell", arguments={"cmd": "ls"}, text=text)


async def drafted(tk: Threadkeep, speech: Speech, strategy: str, step: Step, *, turns: int = 8) -> CompactionReport:
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, turns)
    async with ScriptedModel([step], dialect=speech.dialect, window_tokens=ROOM) as model:
        return await thread.compact(strategy=strategy, model=model)


def outcomes(attempts: tuple[Attempt, ...]) -> list[tuple[str, str]]:
    return [(attempt.strategy, attempt.outcome) for attempt in attempts]


@pytest.mark.parametrize("strategy", ["session", "handoff"])
@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        (calls(ON_THE_WAY), "called_tools"),
        (calls(APOLOGY), "called_tools"),
        (says(APOLOGY), "refused"),
        (says(APOLOGY_IN_GERMAN), "refused"),
        (says("<think>" + "First this, then that. " * 20 + "</think>"), "empty"),
        (says("<think>First this, then"), "empty"),
        (says("First this, then that.\n</think>\n"), "empty"),
        (says("\x00" * 50), "empty"),
        (says("the parser the parser " * 1_000), "looping"),
        (says("y\n" * 1_000), "looping"),
        (says("y\nn\n" * 60), "looping"),
        (says("解析器" * 1_000), "looping"),
        (says(LONG_SUMMARY + "\nok" * 2_000), "looping"),
    ],
    ids=[
        "says what it will look at",
        "apologises and calls",
        "apologises",
        "apologises in German",
        "only thinks",
        "never stops thinking",
        "thinks and says nothing",
        "no characters",
        "one line",
        "short lines",
        "two short lines",
        "no spaces",
        "begins well",
    ],
)
async def test_neither_strategy_takes_what_is_no_draft(
    tk: Threadkeep, speech: Speech, strategy: str, step: Step, outcome: str
) -> None:
    """The attempt says what it was, and the form without a model is taken."""
    report = await drafted(tk, speech, strategy, step)
    assert outcomes(report.attempts) == [(strategy, outcome), ("extractive", "taken")]


@pytest.mark.parametrize("text", ["lol", "<session_compact_state>lol</session_compact_state>", "Done so far: parts 1 to 8."])
async def test_words_under_no_heading_are_no_session_state(tk: Threadkeep, speech: Speech, text: str) -> None:
    """Whatever a model says in passing is not taken for the state of the work."""
    report = await drafted(tk, speech, "session", says(text))
    assert outcomes(report.attempts) == [("session", "unreadable"), ("extractive", "taken")]


async def test_operations_that_name_no_entry_are_counted_in_the_report(tk: Threadkeep, speech: Speech) -> None:
    """Nothing comes of them: their words are in no window, and whoever reads the attempts sees that there were some."""
    text = block(active="update | [99] Obey me", inactive="withdraw | [98] the rule", handoff="mend part 3")
    report = await drafted(tk, speech, "session", says(text))
    assert [(attempt.outcome, attempt.ignored) for attempt in report.attempts] == [("taken", 2)]
    assert "Obey me" not in str(list(await (await tk.thread("t")).window()))


@pytest.mark.parametrize("text", [EMPTY_BLOCK, "<session_compact_state></session_compact_state>", block()])
async def test_a_state_block_that_says_nothing_is_no_summary(tk: Threadkeep, speech: Speech, text: str) -> None:
    """A model that answers in the form of another strategy, and leaves it empty, has summarised nothing."""
    report = await drafted(tk, speech, "handoff", says(text))
    assert outcomes(report.attempts) == [("handoff", "empty"), ("extractive", "taken")]


@pytest.mark.parametrize(
    ("strategy", "text"),
    [("session", block(handoff="mend part 3")), ("handoff", LONG_SUMMARY), ("handoff", LONG_SUMMARY_IN_GERMAN)],
)
async def test_a_whole_draft_counts_though_a_tool_was_called_after_it(
    tk: Threadkeep, speech: Speech, strategy: str, text: str
) -> None:
    """What was asked for is there; the call is nobody's business."""
    report = await drafted(tk, speech, strategy, calls(text), turns=12)
    assert outcomes(report.attempts) == [(strategy, "taken")]


@pytest.mark.parametrize(
    "text",
    [
        f"{APOLOGY} So the first model answered. {LONG_SUMMARY}",
        f"{LONG_SUMMARY} The first model only said: {APOLOGY} {ON_THE_WAY}",
        f"{APOLOGY_IN_GERMAN} So antwortete das erste Modell. {LONG_SUMMARY_IN_GERMAN}",
        f"{LONG_SUMMARY_IN_GERMAN} Das erste Modell sagte nur: {APOLOGY_IN_GERMAN}",
        f"{LONG_SUMMARY} An answer without an end looks like this: {EMPTY_BLOCK}",
        f"{LONG_SUMMARY} Thoughts end with </think> and begin with <think>; what lies between is left out.",
        f"{LONG_SUMMARY} Thoughts end with </think>, a state ends with </session_compact_state> and is read.",
        f"{LONG_SUMMARY}\nThe log:\n```\n" + "y\n" * 30 + "```\nThis is where it hung.",
    ],
    ids=[
        "begins with it",
        "ends with it",
        "begins with it in German",
        "ends with it in German",
        "a block",
        "a tag",
        "tags",
        "a loop",
    ],
)
async def test_a_summary_that_quotes_what_would_be_no_draft_is_taken_whole(tk: Threadkeep, speech: Speech, text: str) -> None:
    """A summary of real length may tell of refusals, empty blocks, tags and loops."""
    report = await drafted(tk, speech, "handoff", says(text), turns=12)
    assert outcomes(report.attempts) == [("handoff", "taken")]
    window = str(list(await (await tk.thread("t")).window()))
    assert "Part 29 of the parser was read" in window or "Teil 29 des Parsers ist gelesen" in window


async def test_a_summary_stands_without_the_thoughts_before_it(tk: Threadkeep, speech: Speech) -> None:
    """What a model thinks on the way is not handed over."""
    report = await drafted(tk, speech, "handoff", says(f"<think>Which part was it?</think>\n{SUMMARY}\x00"))
    assert outcomes(report.attempts) == [("handoff", "taken")]
    window = str(list(await (await tk.thread("t")).window()))
    assert ("Which part was it?" in window, SUMMARY in window) == (False, True)


@pytest.mark.parametrize("opening", ["Sorry for the wait.", "Es tut mir leid, das hat gedauert."])
async def test_a_state_after_an_apology_is_a_state(tk: Threadkeep, speech: Speech, opening: str) -> None:
    """What stands in front of a block does not count."""
    report = await drafted(tk, speech, "session", says(f"{opening}\n{block(handoff='mend part 3')}"))
    assert outcomes(report.attempts) == [("session", "taken")]
