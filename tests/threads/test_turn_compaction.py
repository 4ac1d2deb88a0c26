"""What a turn's own compaction is called, how far it goes, and what is said to the model right after it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.drafting.replies import block
from tests.parity.vocabulary import ROOM, STATE, Json, Speech, checkpoints, config, play, seen, sent, turn

from threadkeep import Config, Session, Thread, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.errors import CompactionStopped
from threadkeep.hooks import Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.testing.scripted_model import Holds, Overflows, ScriptedModel, Step, says

pytestmark = pytest.mark.anyio

WORDS = "The build is red."


class Told:
    """Hooks that write down which events came, in order, and tell the model something when it starts anew."""

    def __init__(self, *, context: str | None = WORDS, stops: HookEvent | None = None) -> None:
        self.events: list[str] = []
        self.stops = stops
        self._context = context

    def __call__(self, facts: Facts) -> HookReply:
        self.events.append(str(facts.event))
        context = self._context if facts.event is HookEvent.SESSION_START else None
        return HookReply(context=context, stop=facts.event is self.stops, reason="a person is asked")

    @property
    def hooks(self) -> Hooks:
        hooks = Hooks()
        for event in HookEvent:
            hooks = hooks.on(event, FunctionHook(function=self))
        return hooks


def started(speech: Speech) -> Json:
    return speech.said(f"<session_start>{WORDS}</session_start>")


async def behind_the_state(thread: Thread) -> Json:
    """Return what stands right behind the session state: there what is added never stands between a request and its answer."""
    shown = await seen(thread)
    return shown[shown.index(STATE) + 1]


ONCE = ["PreCompact", "PostCompact", "SessionStart"]


async def test_with_the_prefix_uncharged_the_new_window_may_fill_the_whole_one(store_file: Path, speech: Speech) -> None:
    """The limit bounds growth, not size: as much is kept as where no limit was set."""
    settings = Config(
        store=str(store_file),
        model_context_window=100_000,
        model_auto_compact_token_limit=2_000,
        model_auto_compact_token_limit_scope="body_after_prefix",
    )
    async with Threadkeep(settings) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 60)
        await thread.record_usage(input_tokens=(await thread.window()).tokens, output_tokens=10)
        await play(thread, speech, 61, 80)
        async with thread.turn([speech.said("Go on.")]) as begun:
            child = await thread.fork()
            await child.carry_out(Order(trigger="auto", phase="pre_turn"))
            window = await begun.window()
        assert (window.trouble, window.pressure.must_compact) == (None, False)
        assert await seen(thread) == await seen(child)


async def test_a_switch_to_a_larger_window_is_no_downshift(store_file: Path, speech: Speech) -> None:
    """What is full is full with any model; the reason names the switch only where the switch is the reason."""
    settings = Config(store=str(store_file), model_context_window=4_000, model_windows={"small": 3_900, "large": 4_000})
    async with Threadkeep(settings) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        for number in range(1, 15):
            await thread.record(turn(speech, number), model="small")
        async with thread.turn([speech.said("Go on.")], model="large") as begun:
            await begun.window()
        for number in range(15, 30):
            await thread.record(turn(speech, number), model="large")
        async with thread.turn([speech.said("And on.")], model="small") as begun:
            await begun.window()
        assert [made.reason for made in await checkpoints(thread)] == ["context_limit", "model_downshift"]


async def test_before_a_turn_the_request_after_the_compaction_has_what_a_start_adds(store_file: Path, speech: Speech) -> None:
    """Once: not with the turn's next request, not with the next turn, not in another process."""
    told = Told()
    async with Threadkeep(config(store_file), hooks=told.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        async with thread.turn([speech.said("Go on.")]) as begun:
            window = await begun.window()
            assert await begun.window() == window
            await begun.record([speech.answered("Done.")])
        assert (window.trouble, window.pressure.must_compact) == (None, False)
        assert (await behind_the_state(thread), (await seen(thread))[-2:]) == (
            started(speech),
            [speech.said("Go on."), speech.answered("Done.")],
        )
        assert (str(list(window)).count(WORDS), told.events) == (1, ONCE)
        async with thread.turn([speech.said("And on.")]) as begun:
            await begun.window()
            await begun.record([speech.answered("Done.")])
    async with Threadkeep(config(store_file), hooks=told.hooks) as again:
        resumed = await again.thread("t")
        async with resumed.turn([speech.said("Still on.")]) as begun:
            assert str(list(await begun.window())).count(WORDS) == 1
    assert told.events == ONCE


@pytest.mark.parametrize("context", [WORDS, None], ids=["with words", "without"])
async def test_a_start_that_was_told_of_in_its_turn_is_over_when_the_next_begins(
    store_file: Path, speech: Speech, context: str | None
) -> None:
    """Whether or not it added anything: the turn that compacted went on, and so it was told."""
    told = Told(context=context)
    async with Threadkeep(config(store_file), hooks=told.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        async with thread.turn([speech.said("Go on.")]) as begun:
            await begun.window()
            await begun.record([speech.answered("Done.")])
        async with thread.turn([speech.said("And on.")]) as begun:
            await begun.window()
    assert told.events == ONCE


async def test_within_a_turn_each_compaction_is_followed_by_a_start(store_file: Path, speech: Speech) -> None:
    """The very request that was made room for has what it adds."""
    told = Told()
    async with Threadkeep(config(store_file), hooks=told.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        async with thread.turn([speech.said("Read all the parts.")]) as begun:
            before = None
            for number in range(60):
                await begun.record([speech.call(f"c{number}"), speech.output(f"c{number}", f"line of part {number}\n" * 40)])
                window = await begun.window()
                if window.checkpoint != before:
                    assert str(list(window)).count(WORDS) == 1
                before = window.checkpoint
            made = len(await checkpoints(thread))
            assert told.events == ONCE * made
    assert made > 1


async def test_a_start_that_stops_within_a_turn_ends_it_and_keeps_the_compaction(store_file: Path, speech: Speech) -> None:
    """What it wanted said is recorded, and the next turn does not ask it again."""
    told = Told(stops=HookEvent.SESSION_START)
    async with Threadkeep(config(store_file), hooks=told.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        with pytest.raises(CompactionStopped) as stopped:
            async with thread.turn([speech.said("Go on.")]) as begun:
                await begun.window()
        assert (stopped.value.event, stopped.value.reason) == ("SessionStart", "a person is asked")
        assert (await behind_the_state(thread), (await seen(thread))[-1]) == (started(speech), speech.said("Go on."))
        async with thread.turn([speech.said("And on.")]) as begun:
            assert (await begun.window()).checkpoint is not None
    assert told.events == ONCE


async def test_a_turn_stopped_before_its_start_leaves_that_to_the_next(store_file: Path, speech: Speech) -> None:
    """The compaction is kept, no request was made with it; the turn that makes one starts anew first."""
    told = Told(stops=HookEvent.POST_COMPACT)
    async with Threadkeep(config(store_file), hooks=told.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        with pytest.raises(CompactionStopped, match="PostCompact"):
            async with thread.turn([speech.said("Go on.")]) as begun:
                await begun.window()
        async with thread.turn([speech.said("And on.")]) as begun:
            assert str(list(await begun.window())).count(WORDS) == 1
    assert told.events == ONCE


async def test_after_a_refusal_the_smaller_request_has_what_a_start_adds(store_file: Path, speech: Speech) -> None:
    """Whatever called for the compaction, the model is told before it is asked again."""
    told = Told()
    async with Threadkeep(config(store_file), hooks=told.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        steps: list[Step] = [Overflows(), says(block(handoff="go on")), says("Done.")]
        async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
            await Session(thread, model=model, recall=False).ask("Go on.")
    assert str(sent(model.bodies[2])).count(WORDS) == 1
    assert told.events == ONCE


async def test_a_compaction_that_was_waited_for_is_followed_by_a_start_in_the_same_turn(store_file: Path, speech: Speech) -> None:
    """Made beside the conversation: whoever waited is told before the model is asked, and the turn after it is not told again."""
    told, begun, go = Told(), asyncio.Event(), asyncio.Event()

    def drafts(request: object) -> Step:
        begun.set()
        return Holds(until=go, then=says(block(handoff="go on")))

    async with Threadkeep(config(store_file), hooks=told.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 10)
        steps: list[Step] = [says("First."), drafts, says("Second."), says("Third.")]
        async with (
            ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model,
            Session(thread, model=model, recall=False) as agent,
        ):
            await agent.ask("Hello.")
            await begun.wait()
            waiting = asyncio.create_task(agent.ask("Mind this listing. " + "row of the listing\n" * 300))
            while "Mind this listing." not in str(list(await thread.window())):
                pass
            go.set()
            await waiting
            await agent.ask("And on.")
    assert [str(sent(body)).count(WORDS) for body in model.bodies[2:]] == [1, 1]
    assert told.events == ONCE
