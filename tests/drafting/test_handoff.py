"""`handoff`: Codex's layout and its rules, its defects mended."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import STATE, Json, Speech, context, play, seen, turn

from threadkeep import Config, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.ledger import Section
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.tokens import estimate_text

pytestmark = pytest.mark.anyio

ROOM = 200_000


def asked(speech: Speech, first: int, last: int) -> list[Json]:
    return [turn(speech, number)[0] for number in range(first, last + 1)]


async def test_the_window_is_the_users_messages_and_then_the_summary(tk: Threadkeep, speech: Speech) -> None:
    """Users verbatim, oldest first, the summary last; no answer, call or output is left."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    assert await seen(thread) == [*asked(speech, 1, 8), STATE]
    assert SUMMARY in str(list(await thread.window())[-1])


async def test_a_message_nobody_answered_comes_after_the_summary(tk: Threadkeep, speech: Speech) -> None:
    """Before a turn, what comes in stands last and is no part of what is summarised."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    pending = speech.said("And now rename the lexer.")
    await thread.record([pending])
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    assert await seen(thread) == [*asked(speech, 1, 8), STATE, pending]
    assert "rename the lexer" not in str(model.bodies[0])


async def test_in_the_middle_of_a_turn_context_stands_before_the_newest_message_and_the_summary_last(
    tk: Threadkeep, speech: Speech
) -> None:
    """As Codex places it: older messages, host context, the request, the summary."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/src")])
    await play(thread, speech, 1, 8)
    order = Order(strategy="handoff", trigger="auto", phase="mid_turn", reason="context_limit")
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.carry_out(replace(order, model=model))
    assert await seen(thread) == [*asked(speech, 1, 7), context(speech, "/src"), *asked(speech, 8, 8), STATE]


async def test_a_second_hand_off_keeps_all_users_and_replaces_the_summary(tk: Threadkeep, speech: Speech) -> None:
    """The older summary is shown to the model that writes the next, and is gone afterwards."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 6)
    async with ScriptedModel(
        [says("First summary."), says("Second summary.")], dialect=speech.dialect, window_tokens=ROOM
    ) as model:
        await thread.compact(strategy="handoff", model=model)
        await play(thread, speech, 7, 14)
        await thread.compact(strategy="handoff", model=model)
    assert await seen(thread) == [*asked(speech, 1, 14), STATE]
    window = str(list(await thread.window()))
    assert ("First summary." in window, "Second summary." in window) == (False, True)
    assert "First summary." in str(model.bodies[1])


async def test_users_messages_are_quoted_newest_first_under_a_budget(store_file: object, speech: Speech) -> None:
    """The newest that fit stand whole, one more is shortened in its middle, older ones are told by the ledger alone."""
    config = Config(store=str(store_file), model_context_window=100_000, compact_user_message_tokens=560)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        for number in range(6):
            await thread.record([speech.said(f"Rule {number}: " + f"word{number} " * 150), *turn(speech, number)[1:]])
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy="handoff", model=model)
        shown = await seen(thread)
        texts = [str(item) for item in shown[:-1]]
    assert len(texts) == 3
    assert "tokens left out" in texts[0]
    assert [f"Rule {number}: " in text for number, text in ((4, texts[1]), (5, texts[2]))] == [True, True]
    assert sum(estimate_text(text) for text in texts) < 800


async def test_older_rules_survive_though_their_messages_do_not_fit(store_file: object, speech: Speech) -> None:
    """What people demanded long ago is in the summary message, word for word, however small the budget for messages is."""
    config = Config(store=str(store_file), model_context_window=4_000, compact_user_message_tokens=0)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await thread.record([speech.said("Never push to main."), speech.answered("Understood.")])
        await play(thread, speech, 1, 8)
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy="handoff", model=model)
        assert "Never push to main." in str(list(await thread.window()))


async def test_the_users_own_prompt_takes_the_place_of_the_task(store_file: object, speech: Speech) -> None:
    """`compact_prompt` is what the model is asked; that it answers in plain text and calls no tools is told all the same."""
    config = Config(store=str(store_file), model_context_window=4_000, compact_prompt="List every port that was named.")
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy="handoff", model=model)
        text = str(model.bodies[0])
    assert "List every port that was named." in text
    assert "another model can take over" not in text
    assert "Call no tools." in text


async def test_the_next_compaction_may_use_another_strategy(tk: Threadkeep, speech: Speech) -> None:
    """The ledger lives behind a hand-off too: `session` after it knows every rule and its ids."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said("Never push to main."), speech.answered("Understood.")])
    await play(thread, speech, 1, 8)
    async with ScriptedModel([says(SUMMARY), says(block(handoff="go on"))], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
        await play(thread, speech, 9, 16)
        await thread.compact(strategy="session", model=model)
    remembered = [entry.text for entry in (await thread.state()).section(Section.OBJECTIVE)]
    assert remembered[0] == "Never push to main."
    assert "Never push to main." in str(model.bodies[1])
    text = str(list(await thread.window()))
    assert text.count("The earlier part of this session was compacted.") == 1


async def test_roles_alternate_where_they_must(tk: Threadkeep, speech: Speech) -> None:
    """Eight user messages and a summary in a row become messages of alternating roles on `chat` and `messages`."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    await thread.record([speech.said("Go on."), speech.answered("Yes.")])
    roles = [item.get("role") for item in await thread.window()]
    if speech.dialect != "responses":
        assert all(one != other for one, other in itertools.pairwise(roles))
    assert roles[-1] == speech.answered("Yes.")["role"]
