"""What a provider sealed, in its answers or in its own compaction, goes back to that provider's account, and to nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.drafting.test_branching import opaque
from tests.drafting.test_whose_prefix import SEAL, thought
from tests.parity.vocabulary import OFFERED, ROOM, SPEECHES, Json, Speech, play, sent, turn

from threadkeep import Config, Session, Thread, Threadkeep
from threadkeep.llm import Model
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, says

pytestmark = pytest.mark.anyio

HERE = "here#1"


@pytest.fixture(params=OFFERED, ids=[speech.dialect for speech in OFFERED])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


def provider(steps: list[Step], speech: Speech) -> ScriptedRemoteModel:
    return ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer=HERE)


async def test_a_turn_of_another_account_is_sent_the_state_without_the_opaque_item(tk: Threadkeep, speech: Speech) -> None:
    """What one account's provider sealed is no use to another, nor to whoever is known by name alone."""
    thread = await tk.thread("t", dialect=speech.dialect)
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
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000, compact_strategy="remote")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
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


async def test_what_the_provider_counts_is_held_against_the_window_it_was_sent(tk: Threadkeep, speech: Speech) -> None:
    """The opaque item is in the estimate as it is in the request: a count that agrees with the estimate corrects nothing."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 20)
    async with provider([Compacts(items=(opaque(speech, 10**4_000),))], speech) as model:
        report = await thread.compact(strategy="remote", model=model)
    async with thread.turn([speech.said("Go on.")], model=model) as begun:
        tokens = (await begun.window()).tokens
        await begun.record([speech.answered("Done.")], usage={"input_tokens": tokens, "output_tokens": 5})
        window = await begun.window()
    assert (report.strategy, window.pressure.tokens) == ("remote", window.tokens)


def thoughts(speech: Speech) -> list[Json]:
    """An answer that was thought about: on Responses a thought stands by itself, before what it led to."""
    return [thought(speech, 1), speech.answered("Done.")] if speech.dialect == "responses" else [thought(speech, 1)]


async def answered(thread: Thread, speech: Speech, model: Model | str, *items: Json) -> None:
    async with thread.turn([speech.said("Go on.")], model=model) as begun:
        await begun.window()
        await begun.record(items)


@pytest.mark.parametrize("speech", SPEECHES, ids=[speech.dialect for speech in SPEECHES])
@pytest.mark.parametrize("compacted", [False, True])
async def test_a_switch_of_account_in_a_thread_sends_no_seal_to_the_other(
    store_file: Path, speech: Speech, *, compacted: bool
) -> None:
    """What one account thought is left out of what the other is sent; each is shown its own again, across a checkpoint too."""
    here = provider([], speech)
    other = ScriptedRemoteModel([], dialect=speech.dialect, window_tokens=ROOM, issuer="elsewhere#2")
    async with Threadkeep(Config(store=str(store_file), model_context_window=ROOM)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        for number in range(1, 4):
            await thread.record(turn(speech, number, lines=2_000))
        await answered(thread, speech, here, *thoughts(speech))
        if compacted:
            await thread.compact(strategy="extractive")
        whole = list(await thread.window())
        async with thread.turn([speech.said("And you?")], model=other) as begun:
            window = list(await begun.window())
            await begun.record([speech.answered("I do.")])
        async with thread.turn([speech.said("And now?")], model=here) as begun:
            back = list(await begun.window())
    words = [view.text for _, view in thread.seen(thoughts(speech)) if view.text]
    assert SEAL in str(whole)
    assert SEAL not in str(window)
    assert all(text in str(window) for text in words)
    assert back[: len(whole)] == whole


@pytest.mark.parametrize("speech", SPEECHES, ids=[speech.dialect for speech in SPEECHES])
async def test_who_is_known_by_name_alone_is_told_apart_by_provider(tk: Threadkeep, speech: Speech) -> None:
    """Another model of one provider is shown what that provider sealed; a model of another is not."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await answered(thread, speech, "openai:a", *thoughts(speech))
    shown = {name: SEAL in str(list(await thread.window(model=name))) for name in ("openai:b", "b@http://elsewhere/v1", "a")}
    assert shown == {"openai:b": True, "b@http://elsewhere/v1": False, "a": True}


@pytest.mark.parametrize("speech", SPEECHES, ids=[speech.dialect for speech in SPEECHES])
async def test_a_fork_and_a_rollback_know_who_sealed_what(tk: Threadkeep, speech: Speech) -> None:
    """Turns that were taken back no longer count, and what a fork shares is its parent's account's."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await answered(thread, speech, "openai:a", *thoughts(speech))
    await answered(thread, speech, "b@http://elsewhere/v1", speech.answered("Mine."))
    child = await thread.fork()
    await thread.rollback(turns=1)
    for each in (thread, child):
        assert SEAL in str(list(await each.window(model="openai:a")))
        assert SEAL not in str(list(await each.window(model="b@http://elsewhere/v1")))


@pytest.mark.parametrize("speech", SPEECHES, ids=[speech.dialect for speech in SPEECHES])
@pytest.mark.parametrize("opened", ["by a turn", "by a record"])
async def test_who_goes_on_with_a_turn_is_who_answered_from_there(tk: Threadkeep, speech: Speech, opened: str) -> None:
    """A turn begun for one account and gone on with by another: what the other seals there is the other's, and said once."""
    thread = await tk.thread("t", dialect=speech.dialect)
    here, there = provider([], speech), ScriptedRemoteModel([], dialect=speech.dialect, window_tokens=ROOM, issuer="elsewhere#2")
    if opened == "by a record":
        await thread.record([speech.said("Go on.")])
    else:
        with pytest.raises(ZeroDivisionError):
            async with thread.turn([speech.said("Go on.")], model=here):
                raise ZeroDivisionError
    for _ in range(2):
        async with thread.turn([], model=there) as begun:
            await begun.window()
            await begun.record(thoughts(speech))
    noted = [record for record in await thread.records() if record.kind is RecordKind.CONTEXT]
    assert SEAL in str(list(await thread.window(model=there.name, issuer=there.issuer)))
    assert SEAL not in str(list(await thread.window(model=here.name, issuer=here.issuer)))
    assert len(noted) == 1
