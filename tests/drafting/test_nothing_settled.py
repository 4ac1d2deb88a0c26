"""A compaction of a window in which nothing was answered since the last one: no draft is made up, and none is dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.parity.vocabulary import Speech, play

from threadkeep import Threadkeep
from threadkeep.compaction.ledger import Ledger
from threadkeep.compaction.plan import Plan
from threadkeep.compaction.strategies import handoff, session
from threadkeep.compaction.strategies.requests import NotAsked
from threadkeep.compaction.strategies.strategy import Brief, Draft, Summariser
from threadkeep.dialects import find_dialect
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads import Tip

pytestmark = pytest.mark.anyio

ROOM = 200_000
LONG = "Thank you. Here is what the others wrote to me about it. " * 80


async def test_a_hand_off_goes_on_from_the_summary_before_it(tk: Threadkeep, speech: Speech) -> None:
    """The summary is no pending input: the model is shown it, and what was handed over is not lost to an empty draft."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 12)
    async with ScriptedModel([says("The lexer is FROZEN-17.")], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    await thread.record([speech.said(LONG)])
    async with ScriptedModel([says("Still FROZEN-17.")], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="handoff", model=model, target="50%")
    assert (report.strategy, report.attempts[0].calls) == ("handoff", 1)
    assert "FROZEN-17" in str(model.bodies[0])
    assert "Still FROZEN-17." in str(list(await thread.window()))


@pytest.mark.parametrize("draft", [session.draft, handoff.draft], ids=["session", "handoff"])
async def test_nothing_to_tell_is_nothing_to_draft_from(draft: Callable[[Brief, Summariser], Awaitable[Draft]]) -> None:
    """Of a window that holds nothing the model may read no draft is made up: it would take the place of the one before."""
    chat = find_dialect("chat")
    tip = Tip(next=1, turn=1, depth=0, chain=b"")
    plan = Plan(tip=tip, context=(), request=None, tail=(), replaced=(), tokens_before=0)
    brief = Brief(thread_id="t", dialect=chat, plan=plan, window=(), ledger=Ledger())
    async with ScriptedModel([], dialect="chat", window_tokens=ROOM) as model:
        with pytest.raises(NotAsked, match="nothing_to_tell"):
            await draft(brief, Summariser(name=model.name, dialect=chat, ask=model.ask, window_tokens=ROOM))
