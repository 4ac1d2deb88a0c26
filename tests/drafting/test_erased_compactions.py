"""Erasing takes with it what stands for the words elsewhere: a provider's own compaction, a checkpoint made just then."""

from __future__ import annotations

import pytest
from tests.drafting.test_erased_meanwhile import RULE, WORD, told
from tests.drafting.test_inline_compaction import inline
from tests.parity.vocabulary import OFFERED, Speech, of_kind, play

from threadkeep import Thread, Threadkeep
from threadkeep.adapters.host_history import record_reply
from threadkeep.erasure.erase import ErasurePlan, erase, plan_erasure
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


@pytest.fixture(params=OFFERED, ids=[speech.dialect for speech in OFFERED])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


async def planned(tk: Threadkeep, thread: Thread) -> ErasurePlan:
    """What it takes to erase the person's message that holds the word."""
    said = [record.ordinal for record in await of_kind(thread, RecordKind.ITEM) if RULE.encode() in record.body]
    return await plan_erasure(tk.backend, thread.id, said)


async def carried_out(tk: Threadkeep, plan: ErasurePlan) -> None:
    async def recompact(thread_id: str) -> object:
        return await (await tk.find(thread_id)).compact(strategy="extractive")

    await erase(tk.backend, plan, reason="asked to", memories=tk.memory, recompact=recompact)


async def test_what_a_provider_compacted_in_an_answer_goes_with_what_it_stands_for(tk: Threadkeep, speech: Speech) -> None:
    """It holds the words, open or sealed: in the thread, and in a fork where the provider compacted later."""
    thread = await told(tk, speech)
    child = await thread.fork()
    for number, each in enumerate((thread, child), start=1):
        await each.record(
            [speech.said("Go on."), *inline(speech, number, "Going on."), speech.said("And?"), speech.answered("Yes.")]
        )
    await carried_out(tk, await planned(tk, thread))
    for each in (thread, child):
        assert "sealed" not in str([record.body for record in await of_kind(each, RecordKind.ITEM)])
        assert "And?" in str(list(await each.window()))
    assert (await tk.verify()).problems == ()


async def test_a_compaction_before_the_words_stays(tk: Threadkeep, speech: Speech) -> None:
    """It cannot know what was said after it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record(
        [speech.said("Go on."), *inline(speech, 1, "Going on."), speech.said(RULE), speech.answered("I will not.")]
    )
    await carried_out(tk, await planned(tk, thread))
    assert "sealed 1" in str(list(await thread.window()))
    assert WORD not in str(list(await thread.window()))


async def test_a_checkpoint_made_after_it_was_planned_goes_too(tk: Threadkeep, speech: Speech) -> None:
    """Between a plan and its being carried out a compaction may come to an end; its state tells the words."""
    thread = await told(tk, speech)
    plan = await planned(tk, thread)
    await thread.compact(strategy="extractive")
    assert WORD in str(list(await thread.window()))
    await carried_out(tk, plan)
    bodies = [record.body for record in await thread.records() if not record.erased]
    assert WORD.encode() not in b"".join(bodies)
    await play(thread, speech, 9, 12)
    assert WORD not in str(list(await thread.window()))


async def test_what_came_as_an_answer_nobody_sent_back_goes_too(tk: Threadkeep, speech: Speech) -> None:
    """A gateway keeps an answer beside the history until the client echoes it; what was compacted in it goes too."""
    thread = await told(tk, speech)
    await record_reply(tk, thread.id, inline(speech, 1, "Going on."), estimated_tokens=10, input_tokens=None, output_tokens=None)
    await carried_out(tk, await planned(tk, thread))
    assert "sealed" not in str([record.body for record in await thread.records()])
