"""How long a draft is asked to be: a draft as long as what it is drafted from replaces nothing."""

from __future__ import annotations

import re

import pytest
from tests.drafting.replies import block
from tests.parity.vocabulary import Speech, play

from threadkeep import Threadkeep
from threadkeep.compaction.strategies.handoff import SUMMARY_TOKENS
from threadkeep.compaction.strategies.instructions import LEAST_ASKED_TOKENS, choose_answer_tokens
from threadkeep.compaction.strategies.session import BLOCK_TOKENS
from threadkeep.testing.scripted_model import ScriptedModel, says

pytestmark = pytest.mark.anyio

REPLIES = {"session": block(handoff="go on"), "handoff": "Eight parts of the parser were read; the ninth comes next."}


@pytest.mark.parametrize("strategy", sorted(REPLIES))
async def test_a_short_window_asks_for_a_draft_clearly_shorter_than_itself(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """What the instruction names is a fraction of the window; small models write as much as they are allowed to."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 12)
    async with ScriptedModel([says(REPLIES[strategy])], dialect=speech.dialect, window_tokens=200_000) as model:
        report = await thread.compact(strategy=strategy, model=model)
    named = re.search(r"(?:under|more than) (\d+) tokens", str(model.bodies[0]))
    assert named is not None
    assert LEAST_ASKED_TOKENS <= int(named[1]) <= report.tokens_before // 2


@pytest.mark.parametrize("most", [BLOCK_TOKENS, SUMMARY_TOKENS])
def test_a_large_window_asks_for_no_more_than_a_strategy_ever_does(most: int) -> None:
    """A million tokens are told in as many as two hundred thousand are."""
    assert [choose_answer_tokens(window, most=most) for window in (0, 200_000, 1_000_000)] == [LEAST_ASKED_TOKENS, most, most]
