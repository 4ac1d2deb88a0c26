"""Another model takes over: a smaller window, another provider, a model that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import (
    ROOM,
    STATE,
    Speech,
    asked,
    checkpoints,
    context,
    permissions,
    play,
    seen,
    sent,
    turn,
    turns,
)

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction.strategies.requests import estimate_request
from threadkeep.testing.scripted_model import Rejected, ScriptedModel, says

pytestmark = pytest.mark.anyio

SMALL = "scripted:small"


def switching(file: Path, **settings: object) -> Config:
    """A thread may grow to 100,000 tokens with any model but the small one."""
    known = {"model_context_window": 100_000, "model_windows": {SMALL: 4_000}}
    return Config(store=str(file), **{**known, **settings})  # type: ignore[arg-type]  # as a test names them


def small(steps: list[object], speech: Speech, *, window_tokens: int | None = 4_000) -> ScriptedModel:
    return ScriptedModel(steps, name=SMALL, dialect=speech.dialect, window_tokens=window_tokens)  # type: ignore[arg-type]  # steps


async def worked(tk: Threadkeep, speech: Speech, *, last: int = 14) -> Thread:
    """A thread that a large model worked on, turn by turn."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(1, last + 1):
        await thread.record(turn(speech, number), model="scripted:large")
    return thread


async def recorded(thread: Thread) -> list[tuple[str, str, str]]:
    return [(made.strategy, made.phase, made.reason) for made in await checkpoints(thread)]


async def test_the_smaller_model_compacts_what_it_cannot_hold_in_parts_it_can(store_file: Path, speech: Speech) -> None:
    """No older model is needed for it: the span is told in parts that fit the new window."""
    async with Threadkeep(switching(store_file)) as tk:
        thread = await worked(tk, speech)
        incoming = speech.said("Go on.")
        model = small([says(block(handoff="go on"))] * 20, speech)
        async with thread.turn([incoming], model=model) as begun:
            assert not (await begun.window()).pressure.must_compact
        assert await recorded(thread) == [("session", "pre_turn", "model_downshift")]
        assert len(model.requests) > 1
        assert all(estimate_request(request) < 4_000 for request in model.requests)
        assert (await seen(thread))[-1] == incoming


async def test_after_a_restart_the_switch_is_seen_all_the_same(store_file: Path, speech: Speech) -> None:
    """Which model worked last is recorded with its turn."""
    async with Threadkeep(switching(store_file)) as tk:
        await worked(tk, speech)
    async with Threadkeep(switching(store_file)) as again:
        thread = await again.thread("t")
        async with thread.turn([speech.said("Go on.")], model=SMALL) as begun:
            await begun.window()
        assert await recorded(thread) == [("extractive", "pre_turn", "model_downshift")]


async def test_word_of_the_new_model_is_not_in_the_request_and_stands_after_it(store_file: Path, speech: Speech) -> None:
    """What the host says about the switch comes in with the turn: it is not summarised, and it is there once afterwards."""
    async with Threadkeep(switching(store_file, compact_strategy="handoff")) as tk:
        thread = await worked(tk, speech)
        switch = speech.instructed("<model_switch>You are the small one.</model_switch>")
        async with (
            small([says(SUMMARY)], speech, window_tokens=ROOM) as model,
            thread.turn([switch, speech.said("Go on.")], model=model) as begun,
        ):
            await begun.window()
        assert sent(model.bodies[0])[:-1] == turns(speech, 1, 14)
        shown = await seen(thread)
        assert (shown.count(switch), shown[-1]) == (1, speech.said("Go on."))
        assert shown[:15] == [*asked(speech, 1, 14), STATE]


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_model_that_is_gone_costs_one_request_and_no_turn(
    store_file: Path, speech: Speech, strategy: str, status: int
) -> None:
    """Rejected or not found, before the turn and after a restart: the next rung needs no model, and the turn goes on."""
    async with Threadkeep(switching(store_file)) as tk:
        await worked(tk, speech)
    async with Threadkeep(switching(store_file, compact_strategy=strategy)) as again:
        thread = await again.thread("t")
        async with (
            small([Rejected(status=status, reason="no such model")], speech, window_tokens=ROOM) as gone,
            thread.turn([speech.said("Go on.")], model=gone) as begun,
        ):
            window = await begun.window()
        assert window.trouble is None
        assert not window.pressure.must_compact
        (made,) = await checkpoints(thread)
        assert [(attempt.strategy, attempt.outcome) for attempt in made.attempts] == [
            (strategy, "model_rejected"),
            ("extractive", "taken"),
        ]
        assert (await seen(thread))[-1] == speech.said("Go on.")


async def test_a_switch_that_fits_compacts_nothing(store_file: Path, speech: Speech) -> None:
    """Another name alone is no reason, nor is a larger window."""
    async with Threadkeep(switching(store_file, model_windows={SMALL: 4_000, "scripted:other": 90_000})) as tk:
        thread = await worked(tk, speech)
        for model in ("scripted:other", "scripted:large", "unheard-of"):
            async with thread.turn([speech.said("Go on.")], model=model) as begun:
                assert (await begun.window()).checkpoint is None


async def test_with_the_prefix_uncharged_a_switch_compacts_only_at_the_new_models_full_window(
    store_file: Path, speech: Speech
) -> None:
    """What stood before the switch is prefix: below the new window nothing happens, at it the new model compacts."""
    windows = {SMALL: 4_000, "scripted:middle": 8_000}
    config = switching(
        store_file,
        model_windows=windows,
        model_auto_compact_token_limit=1_000,
        model_auto_compact_token_limit_scope="body_after_prefix",
    )
    async with Threadkeep(config) as tk:
        thread = await worked(tk, speech)
        await thread.record_usage(input_tokens=(await thread.window()).tokens, output_tokens=10)
        async with thread.turn([speech.said("Go on.")], model="scripted:middle") as begun:
            assert (await begun.window()).checkpoint is None
        async with (
            small([says(block(handoff="go on"))], speech, window_tokens=ROOM) as model,
            thread.turn([speech.said("And on.")], model=model) as begun,
        ):
            assert (await begun.window()).checkpoint is not None
        assert await recorded(thread) == [("session", "pre_turn", "model_downshift")]


async def test_in_the_middle_of_the_turn_after_a_switch_the_limit_is_the_reason(store_file: Path, speech: Speech) -> None:
    """The switch explains the first compaction of its turn, not those that the turn's own work calls for."""
    async with Threadkeep(switching(store_file)) as tk:
        thread = await worked(tk, speech, last=4)
        async with thread.turn([speech.said("Read the listing.")], model=SMALL) as begun:
            assert (await begun.window()).checkpoint is None
            await begun.record([speech.call("x"), speech.output("x", "row of the listing\n" * 700)])
            await begun.window()
        assert await recorded(thread) == [("extractive", "mid_turn", "context_limit")]


async def test_settings_of_the_older_model_stand_once_after_the_switch(store_file: Path, speech: Speech) -> None:
    """The newest version of each, whichever model was at work when it was told."""
    async with Threadkeep(switching(store_file, compact_strategy="handoff")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await thread.record([permissions(speech, "ask"), context(speech, "/src")], model="scripted:large")
        await play(thread, speech, 1, 14)
        incoming = [permissions(speech, "never"), speech.said("Go on.")]
        async with small([says(SUMMARY)], speech, window_tokens=ROOM) as model, thread.turn(incoming, model=model) as begun:
            await begun.window()
        shown = await seen(thread)
    told = (permissions(speech, "ask"), context(speech, "/src"), permissions(speech, "never"))
    assert [shown.count(item) for item in told] == [0, 1, 1]


async def test_a_long_thread_fits_the_smaller_window_after_the_switch(store_file: Path, speech: Speech) -> None:
    """How much of the recent history stays goes by the window of the model that takes over."""
    async with Threadkeep(switching(store_file)) as tk:
        thread = await worked(tk, speech, last=60)
        async with thread.turn([speech.said("Go on.")], model=SMALL) as begun:
            assert not (await begun.window()).pressure.must_compact
