"""Who is asked on the thread's own prefix: its own model, where what goes out beside the history is known. Everybody else is told
a transcript, and nobody what another provider sealed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.drafting.replies import block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import Json, Speech, play, sent, skip_unless_offered, turn, turns

from threadkeep import Head, Thread, Threadkeep
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, says

pytestmark = pytest.mark.anyio

ROOM = 200_000
OWN = "scripted:own"
TOOLS: tuple[Json, ...] = ({"type": "function", "name": "shell", "parameters": {"type": "object"}},)
HEAD = Head("You are a careful engineer.", TOOLS)
SEAL = "c2VhbGVk" * 20


def drafting(speech: Speech, *, name: str = OWN) -> ScriptedModel:
    return ScriptedModel([says(block(handoff="go on"))], name=name, dialect=speech.dialect, window_tokens=ROOM)


def thought(speech: Speech, number: int) -> Json:
    """An answer with something in it that only the provider who made it can read."""
    match speech.dialect:
        case "responses":
            return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": SEAL}
        case "chat":
            details = [{"type": "reasoning.encrypted", "data": SEAL}]
            return {"role": "assistant", "content": "Let me see.", "reasoning_details": details}
        case "gemini":
            words = {"text": "Let me see.", "thoughtSignature": SEAL}
            return {"role": "model", "parts": [{"text": "Let me see.", "thought": True}, words]}
        case _:
            thinking = {"type": "thinking", "thinking": "Let me see.", "signature": SEAL}
            return {"role": "assistant", "content": [thinking, {"type": "text", "text": "Let me see."}]}


async def thinking_turns(thread: Thread, speech: Speech, first: int, last: int, *, model: str) -> None:
    for number in range(first, last + 1):
        asked, *rest = turn(speech, number)
        # On Responses a thought stands by itself, and counts with the call it led to.
        more = [] if speech.dialect == "responses" else [speech.said("Go on.")]
        await thread.record([asked, thought(speech, number), *more, *rest], model=model)


def is_transcript(body: dict[str, Any]) -> bool:
    return len(sent(body)) == 1 and "<transcript>" in str(sent(body)[0])


async def test_by_hand_and_without_a_head_the_span_is_told_as_a_transcript(tk: Threadkeep, speech: Speech) -> None:
    """A history without the system and the tools it goes out with is no prefix, and providers refuse calls of unknown tools."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(1, 9):
        await thread.record(turn(speech, number), model=OWN)
    async with drafting(speech) as model:
        report = await thread.compact(strategy="session", model=model)
    assert report.strategy == "session"
    assert is_transcript(model.bodies[0])
    assert model.bodies[0].keys() == {thread.dialect.history_field}


async def test_by_hand_with_a_head_it_is_what_a_turn_sends_and_one_message_more(tk: Threadkeep, speech: Speech) -> None:
    """A caller that knows what goes out beside the history has its own model asked on the prefix."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(1, 9):
        await thread.record(turn(speech, number), model=OWN)
    async with drafting(speech) as model:
        await thread.compact(strategy="session", model=model, head=HEAD)
    (body,) = model.bodies
    assert (sent(body)[:-1], body["tools"]) == (turns(speech, 1, 8), list(TOOLS))


async def test_the_head_of_the_last_turn_is_still_known_by_hand(tk: Threadkeep, speech: Speech) -> None:
    """A handle that ran a turn knows what its requests hold."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(1, 9):
        async with thread.turn(turn(speech, number), model=OWN, head=HEAD):
            pass
    async with drafting(speech) as model:
        await thread.compact(strategy="session", model=model)
    (body,) = model.bodies
    assert (sent(body)[:-1], body["tools"]) == (turns(speech, 1, 8), list(TOOLS))
    assert HEAD.system is not None
    assert HEAD.system in str(body)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("openai:a", "a@http://elsewhere/v1"),
        ("a@http://here/v1", "a@http://elsewhere/v1"),
        ("openai:a", "anthropic:a"),
        ("a", "b@http://elsewhere/v1"),
    ],
)
async def test_what_one_provider_sealed_is_in_no_request_to_the_next(
    tk: Threadkeep, speech: Speech, before: str, now: str
) -> None:
    """A turn with another provider's model compacts on the prefix it sends itself, which holds nothing the first one sealed."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thinking_turns(thread, speech, 1, 14, model=before)
    bare = list(await thread.window(model=now))
    async with drafting(speech, name=now) as model, thread.turn([speech.said("Go on.")], model=model, head=HEAD) as begun:
        await begun.window()
    assert sent(model.bodies[0])[:-1] == bare
    assert SEAL not in str(model.bodies[0])


@pytest.mark.parametrize(("before", "now"), [("openai:a", "openai:b"), ("a", "openai:a"), ("openai:a", "openai:a")])
async def test_what_a_provider_sealed_goes_back_to_it(tk: Threadkeep, speech: Speech, before: str, now: str) -> None:
    """Another model of the same provider, or the same one by its short name, is asked on the prefix, byte for byte."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thinking_turns(thread, speech, 1, 14, model=before)
    window = list(await thread.window())
    async with drafting(speech, name=now) as model, thread.turn([speech.said("Go on.")], model=model, head=HEAD) as begun:
        await begun.window()
    assert sent(model.bodies[0])[:-1] == window


async def test_a_new_provider_without_anything_sealed_before_it_is_asked_on_the_prefix(tk: Threadkeep, speech: Speech) -> None:
    """What everybody can read needs no transcript."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(1, 15):
        await thread.record(turn(speech, number), model="openai:a")
    async with (
        drafting(speech, name="a@http://elsewhere/v1") as model,
        thread.turn([speech.said("Go on.")], model=model, head=HEAD) as begun,
    ):
        await begun.window()
    assert sent(model.bodies[0])[:-1] == turns(speech, 1, 14)


async def test_once_the_old_providers_thoughts_are_compacted_away_the_prefix_is_warm_again(
    tk: Threadkeep, speech: Speech
) -> None:
    """Only what the window still holds counts, not what the thread has been through."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thinking_turns(thread, speech, 1, 8, model="openai:a")
    for number in range(9, 20):
        await thread.record(turn(speech, number), model="other:b")
    await thread.compact(strategy="extractive")
    assert SEAL not in str(list(await thread.window()))
    await thinking_turns(thread, speech, 20, 30, model="other:b")
    window = list(await thread.window())
    async with drafting(speech, name="other:b") as model:
        await thread.compact(strategy="session", model=model, head=HEAD)
    assert sent(model.bodies[0])[:-1] == window


async def test_a_model_of_the_same_name_elsewhere_is_not_the_threads_own_by_silence(tk: Threadkeep, speech: Speech) -> None:
    """Who was asked long ago is still who was asked last; what that provider compacted by itself is shown to no other."""
    skip_unless_offered(speech)
    thread = await tk.thread("t", dialect=speech.dialect)
    await thinking_turns(thread, speech, 1, 8, model="openai:a")
    remote = ScriptedRemoteModel(
        [Compacts(items=(opaque(speech, 1),))], name="openai:a", dialect=speech.dialect, window_tokens=ROOM
    )
    await thread.compact(strategy="remote", model=remote)
    await play(thread, speech, 9, 24)
    async with drafting(speech, name="a@http://elsewhere/v1") as model:
        await thread.compact(strategy="session", model=model, head=HEAD)
    assert is_transcript(model.bodies[0])
    assert "sealed" not in str(model.bodies[0])
