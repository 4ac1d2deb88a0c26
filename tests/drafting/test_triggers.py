"""When a compaction happens by itself, in which phase, with which limits, and how it is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.drafting.replies import block
from tests.parity.vocabulary import STATE, Speech, of_kind, play, seen, turn

from threadkeep import Config, Thread, Threadkeep
from threadkeep.errors import CompactionStopped
from threadkeep.hooks import CompactionFacts, Facts, FunctionHook, HookEvent, HookReply, Hooks, SessionFacts
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads import Checkpoint, decode_body

pytestmark = pytest.mark.anyio

ROOM = 200_000


def small(file: Path, **settings: object) -> Config:
    return Config(store=str(file), **{"model_context_window": 4_000, **settings})  # type: ignore[arg-type]  # as a test names them


async def checkpoints(thread: Thread) -> list[Checkpoint]:
    return [decode_body(record.body, Checkpoint) for record in await of_kind(thread, RecordKind.CHECKPOINT)]


def recorded(made: Checkpoint) -> tuple[str, str, str]:
    return made.trigger, made.phase, made.reason


async def test_before_a_turn_the_turns_own_model_drafts_and_the_input_is_left_out(tk: Threadkeep, speech: Speech) -> None:
    """The model of the turn is asked once, on the prefix; the input is not in the request and is last in the window."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 14)
    incoming = speech.said("And now rename the lexer.")
    async with (
        ScriptedModel([says(block(handoff="go on"))], dialect=speech.dialect, window_tokens=ROOM) as model,
        thread.turn([incoming], model=model) as begun,
    ):
        window = await begun.window()
    assert window.trouble is None
    (made,) = await checkpoints(thread)
    assert (made.strategy, *recorded(made)) == ("session", "auto", "pre_turn", "context_limit")
    assert "rename the lexer" not in str(model.bodies[0]).split("by number")[0]
    assert (await seen(thread))[-1] == incoming


async def test_in_the_middle_of_a_turn_only_as_often_as_the_window_fills(tk: Threadkeep, speech: Speech) -> None:
    """A run of 150 calls in one turn compacts several times, keeps its request, and is over no limit at any step.

    What was prepared beside it is swapped in, and where that is not there in time the turn compacts itself.
    """
    thread = await tk.thread("t", dialect=speech.dialect)
    async with thread.turn([speech.said("Read all the parts.")]) as begun:
        for number in range(150):
            await begun.record([speech.call(f"c{number}"), speech.output(f"c{number}", f"line of part {number}\n" * 40)])
            assert not (await begun.window()).pressure.must_compact
        made = await checkpoints(thread)
    assert len(made) >= 2
    assert {recorded(each) for each in made} <= {("auto", "mid_turn", "context_limit"), ("auto", "mid_turn", "background")}
    await thread.upkeep_is_over()
    assert speech.said("Read all the parts.") in await seen(thread)


async def test_a_switch_to_a_smaller_model_compacts_before_its_first_request(store_file: Path, speech: Speech) -> None:
    """What fits the old window and not the new one is compacted, and the reason says why."""
    config = small(store_file, model_context_window=100_000, model_windows={"mini": 4_000, "mini-long": 90_000})
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        for number in range(1, 15):
            async with thread.turn(turn(speech, number), model="big") as begun:
                assert (await begun.window()).checkpoint is None
        async with thread.turn([speech.said("Go on.")], model="mini-long-2026") as begun:
            assert (await begun.window()).checkpoint is None
        async with thread.turn([speech.said("Go on.")], model="mini-2026") as begun:
            assert not (await begun.window()).pressure.must_compact
        (made,) = await checkpoints(thread)
    assert recorded(made) == ("auto", "pre_turn", "model_downshift")


async def test_the_same_model_again_is_no_switch(store_file: Path, speech: Speech) -> None:
    """A restart forgets no model: the reason of the next compaction is the limit."""
    async with Threadkeep(small(store_file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        for number in range(1, 15):
            await thread.record(turn(speech, number), model="mini")
    async with Threadkeep(small(store_file)) as tk:
        thread = await tk.thread("t")
        async with thread.turn([speech.said("Go on.")], model="mini") as begun:
            await begun.window()
        (made,) = await checkpoints(thread)
    assert recorded(made) == ("auto", "pre_turn", "context_limit")


async def test_a_configured_limit_above_nine_tenths_is_clamped(store_file: Path, speech: Speech) -> None:
    """The limit of scope `total` is never above 90 % of the window."""
    async with Threadkeep(small(store_file, model_auto_compact_token_limit=1_000_000)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        limits = (await thread.window()).pressure.limits
    assert (limits.hard, limits.full) == (3_600, 3_800)


async def test_a_soft_limit_of_ones_own(store_file: Path, speech: Speech) -> None:
    """The configured soft limit counts, but never above the hard limit."""
    async with Threadkeep(small(store_file, model_soft_compact_token_limit=500)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 3)
        pressure = (await thread.window()).pressure
    assert (pressure.worth_preparing, pressure.must_compact) == (True, False)


async def test_with_the_prefix_uncharged_only_growth_counts(store_file: Path, speech: Speech) -> None:
    """Scope `body_after_prefix`: what the provider first counted in this window is free, growth after it is not."""
    config = small(
        store_file,
        model_context_window=100_000,
        model_auto_compact_token_limit=1_000,
        model_auto_compact_token_limit_scope="body_after_prefix",
    )
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 20)
        assert not (await thread.window()).pressure.must_compact
        tokens = (await thread.window()).tokens
        await thread.record_usage(input_tokens=tokens, output_tokens=10)
        assert not (await thread.window()).pressure.must_compact
        await play(thread, speech, 21, 26)
        assert (await thread.window()).pressure.must_compact
        async with thread.turn([speech.said("Go on.")]) as begun:
            assert not (await begun.window()).pressure.must_compact


async def test_with_the_prefix_uncharged_the_full_window_still_caps(store_file: Path, speech: Speech) -> None:
    """However large the configured limit: what the provider refuses is compacted."""
    config = small(store_file, model_auto_compact_token_limit=1_000_000, model_auto_compact_token_limit_scope="body_after_prefix")
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        assert (await thread.window()).pressure.must_compact


async def test_profiles_and_overrides_choose_the_strategy(store_file: Path, speech: Speech) -> None:
    """What a call says outweighs what is configured, and a configured strategy is used where nothing is said."""
    async with Threadkeep(small(store_file, compact_strategy="handoff")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        async with ScriptedModel([says("A summary.")], dialect=speech.dialect, window_tokens=ROOM) as model:
            assert (await thread.compact(model=model)).strategy == "handoff"
        await play(thread, speech, 9, 16)
        assert (await thread.compact(strategy="extractive")).strategy == "extractive"


class Watching:
    """Hooks that write down what they were told, and answer what a test wants."""

    def __init__(self, *, stop: HookEvent | None = None, context: str | None = None) -> None:
        self.heard: list[Facts] = []
        self._stop = stop
        self._context = context

    def __call__(self, facts: Facts) -> HookReply:
        self.heard.append(facts)
        if facts.event is self._stop:
            return HookReply(stop=True, reason="not now")
        return HookReply(context=self._context if isinstance(facts, SessionFacts) else None)

    @property
    def hooks(self) -> Hooks:
        hooks = Hooks()
        for event in HookEvent:
            hooks = hooks.on(event, FunctionHook(function=self))
        return hooks


async def test_hooks_are_told_before_and_after_and_when_the_next_turn_begins(store_file: Path, speech: Speech) -> None:
    """In this order, with the same trigger; what a SessionStart hook adds stands behind the state, the turn's request last."""
    watching = Watching(context="The build is red.")
    async with Threadkeep(small(store_file), hooks=watching.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        async with thread.turn([speech.said("Go on.")], model="mini") as begun:
            assert (await begun.window()).checkpoint is not None
        async with thread.turn([speech.said("And on.")], model="mini") as begun:
            await begun.window()
        shown = await seen(thread)
        async with thread.turn([speech.said("Still on.")], model="mini"):
            pass
    assert [str(facts.event) for facts in watching.heard] == ["PreCompact", "PostCompact", "SessionStart"]
    before, after, start = watching.heard
    assert isinstance(before, CompactionFacts)
    assert isinstance(after, CompactionFacts)
    assert isinstance(start, SessionFacts)
    assert (before.trigger, before.phase, before.model, after.tokens_before) == ("auto", "pre_turn", "mini", before.tokens_before)
    assert after.tokens_after is not None
    assert after.tokens_after < before.tokens_before
    assert start.checkpoint == after.checkpoint
    assert shown[shown.index(STATE) + 1] == speech.said("<session_start>The build is red.</session_start>")
    assert shown[-1] == speech.said("And on.")


async def test_a_hook_that_stops_before_leaves_everything_and_keeps_the_input(store_file: Path, speech: Speech) -> None:
    """No checkpoint, the turn is told to end, and what came in is recorded."""
    watching = Watching(stop=HookEvent.PRE_COMPACT)
    async with Threadkeep(small(store_file), hooks=watching.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        with pytest.raises(CompactionStopped, match="not now; nothing was changed"):
            async with thread.turn([speech.said("Go on.")]) as begun:
                await begun.window()
        assert await checkpoints(thread) == []
        assert (await seen(thread))[-1] == speech.said("Go on.")


async def test_a_hook_that_stops_afterwards_keeps_the_compaction(store_file: Path, speech: Speech) -> None:
    """The checkpoint stands, and the turn is told to end."""
    watching = Watching(stop=HookEvent.POST_COMPACT)
    async with Threadkeep(small(store_file), hooks=watching.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        with pytest.raises(CompactionStopped, match="the compaction is kept"):
            await thread.compact()
        assert (await seen(thread))[0] == STATE


async def test_a_dry_run_tells_no_hook(store_file: Path, speech: Speech) -> None:
    """Nothing happens, so nobody is told."""
    watching = Watching(stop=HookEvent.PRE_COMPACT)
    async with Threadkeep(small(store_file), hooks=watching.hooks) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        assert (await thread.compact(dry_run=True)).checkpoint is None
    assert watching.heard == []
