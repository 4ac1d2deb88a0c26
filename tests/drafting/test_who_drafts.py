"""Which strategy a compaction takes by default, what a draft that nobody asked for may cost, and how one setting turns it off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.drafting.replies import block
from tests.parity.vocabulary import ROOM, Speech, checkpoints, config, play

from threadkeep import Config, Thread, Threadkeep
from threadkeep.testing.scripted_model import ScriptedModel, says

pytestmark = pytest.mark.anyio

DRAFT = block(handoff="go on")
LONG = "Mind this listing. " + "row of the listing\n" * 300


async def end_past_the_soft_limit(thread: Thread, speech: Speech, model: ScriptedModel | str | None) -> None:
    await play(thread, speech, 1, 10)
    async with thread.turn([speech.said("Hello.")], model=model) as turn:
        await turn.window()
        await turn.record([speech.answered("Done.")])
    await thread.upkeep_is_over()


async def begin_past_the_hard_limit(thread: Thread, speech: Speech, model: ScriptedModel | str | None) -> None:
    await play(thread, speech, 1, 14)
    async with thread.turn([speech.said(LONG)], model=model) as turn:
        assert (await turn.window()).trouble is None


Past = Callable[[Thread, Speech, ScriptedModel | str | None], Awaitable[None]]
PAST = pytest.mark.parametrize("past", [end_past_the_soft_limit, begin_past_the_hard_limit])


def drafting(speech: Speech, *steps: object) -> ScriptedModel:
    return ScriptedModel(list(steps), dialect=speech.dialect, window_tokens=ROOM)  # type: ignore[arg-type]  # steps, as tests name them


async def tried(thread: Thread) -> list[tuple[str, str]]:
    """Return each strategy that the thread's only compaction tried, and what became of it."""
    (made,) = await checkpoints(thread)
    return [(attempt.strategy, attempt.outcome) for attempt in made.attempts]


@PAST
async def test_a_turn_with_a_model_has_it_draft(tk: Threadkeep, speech: Speech, past: Past) -> None:
    """Nothing has to be set for that."""
    thread = await tk.thread("t", dialect=speech.dialect)
    async with drafting(speech, says(DRAFT)) as model:
        await past(thread, speech, model)
    assert await tried(thread) == [("session", "taken")]


@PAST
@pytest.mark.parametrize("model", [None, "mini"])
async def test_a_turn_without_a_model_asks_none(tk: Threadkeep, speech: Speech, past: Past, model: str | None) -> None:
    """A name is no credential."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await past(thread, speech, model)
    assert await tried(thread) == [("extractive", "taken")]


@PAST
async def test_one_setting_turns_drafts_off(store_file: Path, speech: Speech, past: Past) -> None:
    """The strategy that asks no model asks none, whatever model a turn has."""
    async with Threadkeep(replace(config(store_file), compact_strategy="extractive")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        async with drafting(speech) as model:
            await past(thread, speech, model)
        assert await tried(thread) == [("extractive", "taken")]


async def test_recording_asks_nobody_and_compacts_nothing(tk: Threadkeep, speech: Speech) -> None:
    """Far beyond every limit, too: nobody is there to ask, and nobody asked."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 40)
    assert not await thread.upkeep_is_over()
    assert ((await thread.window()).pressure.must_compact, await checkpoints(thread)) == (True, [])


@PAST
@pytest.mark.parametrize("bound", [{"compact_draft_input_tokens": 500}, {"compact_draft_output_tokens": 0}])
async def test_a_draft_that_would_read_or_write_too_much_is_not_made(
    store_file: Path, speech: Speech, past: Past, bound: dict[str, int]
) -> None:
    """The model is not asked, the window is compacted all the same, and the checkpoint says why."""
    async with Threadkeep(replace(config(store_file), **bound)) as tk:  # type: ignore[arg-type]  # numbers, as these settings are
        thread = await tk.thread("t", dialect=speech.dialect)
        async with drafting(speech) as model:
            await past(thread, speech, model)
        assert await tried(thread) == [("session", "over_budget"), ("extractive", "taken")]


async def test_a_model_that_proved_too_dear_is_not_asked_again(store_file: Path, speech: Speech) -> None:
    """What it charged tells what the next draft would cost. A person who asks for a draft gets it, and its bill."""
    async with Threadkeep(replace(config(store_file), compact_draft_cents=5)) as tk:
        first, second = await tk.thread("one", dialect=speech.dialect), await tk.thread("two", dialect=speech.dialect)
        dear = says(DRAFT, input_tokens=3_000, output_tokens=100, cost_usd=0.5)
        async with drafting(speech, dear, dear) as model:
            await end_past_the_soft_limit(first, speech, model)
            await end_past_the_soft_limit(second, speech, model)
            assert await tried(first) == [("session", "taken")]
            assert await tried(second) == [("session", "over_budget"), ("extractive", "taken")]
            await play(second, speech, 11, 20)
            report = await second.compact(model=model)
    assert [(attempt.outcome, attempt.cost_micro_usd) for attempt in report.attempts] == [("taken", 500_000)]


async def test_without_a_known_price_no_draft_is_held_back(store_file: Path, speech: Speech) -> None:
    """A provider that does not say what it charges cannot be held to a sum."""
    async with Threadkeep(replace(config(store_file), compact_draft_cents=0)) as tk:
        for name in ("one", "two"):
            thread = await tk.thread(name, dialect=speech.dialect)
            async with drafting(speech, says(DRAFT, input_tokens=3_000, output_tokens=100)) as model:
                await end_past_the_soft_limit(thread, speech, model)
            assert await tried(thread) == [("session", "taken")]


def test_the_bounds_are_settings() -> None:
    """Their defaults are part of what is promised."""
    defaults = Config()
    bounds = (
        defaults.compact_wait_s,
        defaults.compact_timeout_s,
        defaults.compact_draft_input_tokens,
        defaults.compact_draft_output_tokens,
        defaults.compact_draft_cents,
    )
    assert (defaults.compact_strategy, defaults.gateway_asks_model, bounds) == (
        "default",
        "auto",
        (20, 300, 400_000, 16_000, 100),
    )
