"""`remote`: what only the provider can read stands beside a state anybody can, and is left out elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import OFFERED, SPEECHES, STATE, Speech, play, seen, turn, turns

from threadkeep import Config, Threadkeep
from threadkeep.items import decode_json
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, refuses

pytestmark = pytest.mark.anyio

ROOM = 200_000


@pytest.fixture(params=OFFERED, ids=[speech.dialect for speech in OFFERED])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


async def test_the_opaque_item_comes_first_and_the_state_beside_it(tk: Threadkeep, speech: Speech) -> None:
    """Where the issuer is the same, the window holds both; what the provider echoed of the history is not taken twice."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    echoed = speech.said("Please look into part 1 of the parser.")
    steps = [Compacts(items=(echoed, opaque(speech, 1)))]
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer="here#1") as model:
        report = await thread.compact(strategy="remote", model=model)
    assert report.strategy == "remote"
    window = list(await thread.window(issuer="here#1"))
    assert window[0] == opaque(speech, 1)
    assert list(await thread.window(model=model)) == window
    said = [speech.said(f"Please look into part {number} of the parser.") for number in range(2, 8)]
    shown = await seen(thread)
    newest = turn(speech, 8)
    assert (shown[: len(said) + 1], shown[-len(newest) :]) == ([STATE, *said], newest)


@pytest.mark.parametrize("issuer", [None, "elsewhere#1"])
async def test_another_provider_or_account_is_not_shown_it(tk: Threadkeep, speech: Speech, issuer: str | None) -> None:
    """The readable state carries the thread on; not one byte of what is bound to the other goes out."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    steps = [Compacts(items=(opaque(speech, 1),))]
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer="here#1") as model:
        await thread.compact(strategy="remote", model=model)
    text = str(list(await thread.window(issuer=issuer)))
    assert "sealed" not in text
    assert "Please look into part 1 of the parser." in text


async def test_a_provider_that_takes_instructions_is_told_the_users_prompt_and_focus(store_file: Path, speech: Speech) -> None:
    """Anthropic's compaction follows them; OpenAI's takes none."""
    config = Config(store=str(store_file), model_context_window=4_000, compact_prompt="List every port that was named.")
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        steps = [Compacts(items=(opaque(speech, 1),))]
        async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy="remote", model=model, focus="the lexer")
    fields = {name: decode_json(raw) for name, raw in model.requests[0].fields.items()}
    if speech.dialect == "responses":
        assert "compaction" not in fields
    else:
        assert fields["compaction"]["type"] == "summarize"
        told = fields["compaction"]["instructions"]
        assert ("List every port that was named." in told, "the lexer" in told) == (True, True)


async def test_the_provider_is_sent_the_settled_history_alone(tk: Threadkeep, speech: Speech) -> None:
    """No instruction, no pending message: the history as a turn sends it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    await thread.record([speech.said("Pending.")])
    steps = [Compacts(items=(opaque(speech, 1),))]
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="remote", model=model)
    body = model.bodies[0]
    assert (body["input"] if speech.dialect == "responses" else body["messages"]) == turns(speech, 1, 8)


async def test_the_next_compaction_replaces_the_opaque_item(tk: Threadkeep, speech: Speech) -> None:
    """One at a time: the older one is not carried along."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    steps = [Compacts(items=(opaque(speech, 1),)), Compacts(items=(opaque(speech, 2),))]
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer="here#1") as model:
        await thread.compact(strategy="remote", model=model)
        await play(thread, speech, 9, 16)
        await thread.compact(strategy="remote", model=model)
    text = str(list(await thread.window(issuer="here#1")))
    assert ("sealed 1" in text, "sealed 2" in text) == (False, True)


async def test_a_model_whose_provider_does_not_compact_is_asked_for_a_session_state(tk: Threadkeep, speech: Speech) -> None:
    """`remote` where it is not offered goes one rung down, and says so."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with ScriptedModel([refuses()], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="remote", model=model)
    assert [(attempt.strategy, attempt.outcome) for attempt in report.attempts] == [
        ("remote", "not_offered"),
        ("session", "refused"),
        ("extractive", "taken"),
    ]


async def test_what_is_no_compaction_goes_down_the_ladder(tk: Threadkeep) -> None:
    """A provider that opens a call in place of a compaction ends none: the attempt is recorded and the next rung taken."""
    [speech] = [speech for speech in SPEECHES if speech.dialect == "responses"]
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    call = {"type": "function_call", "call_id": "q", "name": "f", "arguments": "{}", "encrypted_content": "compaction"}
    steps: list[Step] = [Compacts(items=(call,)), refuses()]
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="remote", model=model)
    assert [(attempt.strategy, attempt.outcome) for attempt in report.attempts] == [
        ("remote", "empty"),
        ("session", "refused"),
        ("extractive", "taken"),
    ]
    assert report.checkpoint is not None
