"""What a provider sealed in its own compaction goes back to that provider's account, and to nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.drafting.test_branching import opaque
from tests.scenarios.vocabulary import ROOM, SPEECHES, Speech, play, sent

from holdfast import Config, Holdfast, Session
from holdfast.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, says

pytestmark = pytest.mark.anyio

# No provider compacts Chat Completions by itself.
OFFERED = [speech for speech in SPEECHES if speech.dialect != "chat"]
HERE = "here#1"


@pytest.fixture(params=OFFERED, ids=[speech.dialect for speech in OFFERED])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


def provider(steps: list[Step], speech: Speech) -> ScriptedRemoteModel:
    return ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer=HERE)


async def test_a_turn_of_another_account_is_sent_the_state_without_the_opaque_item(hf: Holdfast, speech: Speech) -> None:
    """What one account's provider sealed is no use to another, nor to whoever is known by name alone."""
    thread = await hf.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with provider([Compacts(items=(opaque(speech, 1),))], speech) as model:
        await thread.compact(strategy="remote", model=model)
    readable = list(await thread.window(issuer=HERE))[1:]
    other = ScriptedRemoteModel([], dialect=speech.dialect, window_tokens=ROOM, issuer="elsewhere#2")
    plain = ScriptedModel([], dialect=speech.dialect, window_tokens=ROOM)
    for asked in (other, plain, model.name):
        async with thread.turn([], model=asked) as begun:
            assert list(await begun.window()) == readable


async def test_a_session_sends_its_provider_the_opaque_item_and_shows_it(store_file: Path, speech: Speech) -> None:
    """The request after the compaction begins with it, in the same turn; so does the next turn's, and what `window` says."""
    async with Holdfast(Config(store=str(store_file), model_context_window=4_000, compact_strategy="remote")) as hf:
        thread = await hf.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        steps: list[Step] = [Compacts(items=(opaque(speech, 1),)), says("Done."), says("Still done.")]
        async with provider(steps, speech) as model:
            session = Session(thread, model=model, recall=False)
            await session.ask("Go on.")
            window = list(await session.window())
            await session.ask("And on.")
    assert [sent(body)[0] for body in model.bodies[1:]] == [opaque(speech, 1)] * 2
    assert window[0] == opaque(speech, 1)
    assert sent(model.bodies[2])[: len(window)] == window


async def test_what_the_provider_counts_is_held_against_the_window_it_was_sent(hf: Holdfast, speech: Speech) -> None:
    """The opaque item is in the estimate as it is in the request: a count that agrees with the estimate corrects nothing."""
    thread = await hf.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 20)
    async with provider([Compacts(items=(opaque(speech, 10**4_000),))], speech) as model:
        report = await thread.compact(strategy="remote", model=model)
    async with thread.turn([speech.said("Go on.")], model=model) as begun:
        tokens = (await begun.window()).tokens
        await begun.record([speech.answered("Done.")], usage={"input_tokens": tokens, "output_tokens": 5})
        window = await begun.window()
    assert (report.strategy, window.pressure.tokens) == ("remote", window.tokens)
