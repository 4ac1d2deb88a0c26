"""What a hand-off leaves, in Codex's order, and how much of it: messages, context before the newest of them, the summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import (
    ROOM,
    STATE,
    Json,
    ResponsesSpeech,
    Speech,
    asked,
    checkpoints,
    context,
    permissions,
    play,
    seen,
    skip_unless_offered,
    turn,
)
from tests.threads.agent import mail_item

from threadkeep import Config, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, says
from threadkeep.threads.mailbox import Way
from threadkeep.tokens import estimate_text

pytestmark = pytest.mark.anyio

TASK = "Port the lexer, keep port 4621, report failing tests alone. " + "Mind the margin. " * 30
REPLIES: dict[str, Step] = {"session": says(block(handoff="go on")), "handoff": says(SUMMARY)}


async def handed_off(tk: Threadkeep, speech: Speech, items: list[Json], *, phase: Phase) -> list[Json]:
    """Return the window that a hand-off of these items leaves."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record(items)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.carry_out(Order(strategy="handoff", model=model, trigger="auto", phase=phase))
    return await seen(thread)


@pytest.mark.parametrize("phase", ["standalone_turn", "pre_turn"])
async def test_between_turns_context_comes_first_and_the_new_message_last(tk: Threadkeep, speech: Speech, phase: Phase) -> None:
    """Instructions that came first, context, what was said, the summary, and what comes in."""
    told = [permissions(speech, "ask"), context(speech, "/src")]
    items = [*told, *(item for number in range(1, 9) for item in turn(speech, number)), speech.said("Go on.")]
    shown = await handed_off(tk, speech, items, phase=phase)
    assert shown == [*told, *asked(speech, 1, 8), STATE, speech.said("Go on.")]


async def test_in_the_middle_of_a_turn_instructions_that_came_first_stay_in_front(tk: Threadkeep, speech: Speech) -> None:
    """What a client sends in front of everything stays there; environment, request and summary come as Codex sends them."""
    told = [permissions(speech, "ask"), context(speech, "/src")]
    items = [*told, *(item for number in range(1, 9) for item in turn(speech, number))]
    shown = await handed_off(tk, speech, items, phase="mid_turn")
    assert shown == [told[0], *asked(speech, 1, 7), told[1], *asked(speech, 8, 8), STATE]


async def test_without_a_word_of_a_person_context_stands_before_the_summary(tk: Threadkeep, speech: Speech) -> None:
    """An agent at work by itself: the summary is still the last."""
    work = [item for number in range(1, 9) for item in turn(speech, number)[1:]]
    shown = await handed_off(tk, speech, [context(speech, "/src"), *work], phase="mid_turn")
    assert shown == [context(speech, "/src"), STATE]


async def test_twenty_thousand_tokens_of_what_users_said_stay_unless_configured(store_file: Path, speech: Speech) -> None:
    """The newest messages whole, the one that no longer fits at both its ends, and none that is older."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=400_000)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        long = "The log begins. " + "row of the log. " * 8_000 + "The log ends."
        await thread.record([speech.said("Never push to main."), speech.answered("Understood.")])
        await thread.record([speech.said(long), speech.answered("Read.")])
        await play(thread, speech, 1, 3)
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy="handoff", model=model)
        shown = await seen(thread)
    assert shown[1:] == [*asked(speech, 1, 3), STATE]
    text = json.dumps(shown[0])
    assert all(part in text for part in ("The log begins.", "tokens left out", "The log ends."))
    assert 19_000 < estimate_text(text) + sum(estimate_text(json.dumps(item)) for item in asked(speech, 1, 3)) < 20_500


@pytest.mark.parametrize("strategy", ["session", "handoff", "remote", "extractive"])
async def test_a_task_another_agent_sent_stays_whole_through_the_compactions_of_its_turn(
    store_file: Path, speech: Speech, strategy: str
) -> None:
    """No person asked for it, and all the same it is what the turn is there for; a person who speaks later is who counts then."""
    skip_unless_offered(speech, strategy)
    task = mail_item(speech, TASK, sender="lead", way=Way.TRIGGER)
    replies = REPLIES | {"remote": Compacts(items=(opaque(speech, 1),))}
    steps = [] if strategy == "extractive" else [replies[strategy]] * 3
    config = Config(store=str(store_file), model_context_window=4_000, compact_strategy=strategy, compact_user_message_tokens=0)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await thread.deliver(TASK, sender="lead", way="trigger")
        async with (
            ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model,
            thread.turn([], model=None if strategy == "extractive" else model) as begun,
        ):
            await begun.window()
            for number in (1, 2, 3):
                await begun.record([speech.call(f"x{number}"), speech.output(f"x{number}", f"row {number}\n" * 2_300)])
                await begun.window()
                shown = await seen(thread)
                assert [shown.count(task), shown.count(STATE)] == [1, 1]
                assert shown[:2] == ([task, STATE] if strategy == "handoff" else [STATE, task])
            await begun.record([speech.answered("Ported.")])
        assert [made.strategy for made in await checkpoints(thread)] == [strategy] * 3
        await play(thread, speech, 1, 8)
        await thread.compact(strategy="extractive", target="1")
        shown = await seen(thread)
        assert [shown.count(each) for each in (task, STATE, *asked(speech, 8, 8))] == [0, 1, 1]


async def test_tasks_that_came_together_stay_together(tk: Threadkeep, speech: Speech) -> None:
    """Two agents asked at once, a third only told something: what is asked for stays, what was told is summarised."""
    tasks = [mail_item(speech, f"Port part {number}.", sender="lead", way=Way.TRIGGER) for number in (1, 2)]
    told = mail_item(speech, "The build is red.", sender="ci")
    work = [item for number in range(1, 9) for item in turn(speech, number)[1:]]
    shown = await handed_off(tk, speech, [tasks[0], told, tasks[1], *work], phase="mid_turn")
    assert shown == [*tasks, STATE]


@pytest.mark.parametrize("strategy", ["handoff", "extractive"])
async def test_a_task_in_the_providers_own_form_stays_too(tk: Threadkeep, strategy: str) -> None:
    """Codex writes mail between agents as items of their own: what came from above stays whole, a report is summarised."""
    speech = ResponsesSpeech()
    content = [{"type": "input_text", "text": TASK}]
    task = {"type": "agent_message", "author": "/lead", "recipient": "/lead/worker", "content": content}
    report = {**task, "author": "/lead/worker/scout", "recipient": "/lead/worker"}
    thread = await tk.thread("t", dialect=speech.dialect)
    work = [item for number in range(1, 9) for item in turn(speech, number)[1:]]
    await thread.record([task, *work, report, *turn(speech, 9)[1:]])
    steps = [REPLIES["handoff"]] if strategy == "handoff" else []
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy=strategy, model=model, target="10%" if strategy == "extractive" else None)
    shown = await seen(thread)
    assert (shown.count(task), shown.count(report)) == (1, 0)
