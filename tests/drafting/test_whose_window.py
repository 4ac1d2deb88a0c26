"""How much a draft may be sent, and what a compaction leaves: by the windows of the model asked and of the thread's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.drafting.replies import block
from tests.parity.vocabulary import Speech, checkpoints, play, turn

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.strategies.requests import estimate_request
from threadkeep.compaction.strategies.strategy import Meter, Summariser
from threadkeep.compaction.summariser import make_summariser
from threadkeep.dialects import Request
from threadkeep.session import Session
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads.pressure import find_model_limits
from threadkeep.tokens import Limits

pytestmark = pytest.mark.anyio

LARGE = 200_000
OWN = "scripted:mini"


def listing(file: Path, **windows: int) -> Config:
    """Every model takes much, but for those that are listed."""
    return Config(store=str(file), model_context_window=LARGE, model_windows=windows)


def drafting(name: str, *, dialect: str, window_tokens: int | None = None, replies: int = 40) -> ScriptedModel:
    return ScriptedModel([says(block(handoff="go on"))] * replies, name=name, dialect=dialect, window_tokens=window_tokens)


def sizes(requests: list[Request]) -> list[int]:
    return [estimate_request(request) for request in requests]


async def worked(tk: Threadkeep, speech: Speech, *, model: str, turns: int = 12) -> Thread:
    """A thread its own model worked on."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(1, turns + 1):
        await thread.record(turn(speech, number), model=model)
    return thread


@pytest.mark.parametrize(
    ("name", "says_itself", "tokens"),
    [
        ("small", None, 7_600),
        ("openai:small", None, 7_600),
        ("small@http://localhost:8080", None, 7_600),
        ("scripted:exact", None, 5_700),
        ("unheard-of", None, 3_800),
        ("small", 50_000, 50_000),
    ],
)
async def test_a_voice_has_the_window_its_model_tells_else_what_is_listed_else_the_threads(
    store_file: Path, name: str, says_itself: int | None, tokens: int
) -> None:
    """A listed name counts with and without its provider, the more exact one first."""
    windows = {"small": 8_000, "scripted:exact": 6_000, "exact": 9_000}
    async with Threadkeep(listing(store_file, **windows)) as tk:
        model = drafting(name, dialect="chat", window_tokens=says_itself)
        thread = await tk.thread("t", dialect="chat")
        order = Order(model=model, limits=Limits.of_window(4_000))
        speak = await make_summariser(order, tk.backend, await thread.history(), thread_id="t", dialect=thread.dialect)
        assert speak is not None
        voice: Summariser = speak(Meter())
        assert voice.window_tokens == tokens


async def test_a_summariser_is_told_in_parts_what_is_more_than_is_listed_for_it(store_file: Path, speech: Speech) -> None:
    """The thread's own window is large, the summariser's small: no request is larger than the summariser takes."""
    async with Threadkeep(listing(store_file, small=8_000)) as tk:
        thread = await worked(tk, speech, model=OWN, turns=60)
        model = drafting("scripted:small", dialect=speech.dialect)
        report = await thread.compact(strategy="session", model=model)
        assert report.strategy == "session"
        assert len(model.requests) > 1
        assert max(sizes(model.requests)) < 8_000


async def test_what_a_provider_lists_of_a_model_is_its_window(store_file: Path) -> None:
    """What was learnt on the way counts where nothing is configured."""
    async with Threadkeep(listing(store_file)) as tk:
        tk.backend.add_windows({"small": 8_000})
        found = find_model_limits(tk.backend, drafting("openai:small", dialect="chat"), otherwise=tk.backend.limits)
        assert found == Limits.of_window(8_000)


@pytest.mark.parametrize(("says_itself", "window"), [(None, 8_000), (4_000, 4_000), (50_000, 8_000)])
async def test_a_model_that_takes_less_than_is_configured_is_believed(
    store_file: Path, says_itself: int | None, window: int
) -> None:
    """What is configured is the user's word for how large a window may grow; only what cannot be sent outweighs it."""
    async with Threadkeep(listing(store_file, mini=8_000)) as tk:
        model = drafting(OWN, dialect="chat", window_tokens=says_itself)
        assert find_model_limits(tk.backend, model, otherwise=tk.backend.limits) == Limits.of_window(window)


async def test_the_threads_own_model_is_sent_no_more_than_is_listed_for_it(store_file: Path, speech: Speech) -> None:
    """Its window is what the compaction aims at too: what it is sent fits, and so does what is left."""
    async with Threadkeep(listing(store_file, mini=4_000)) as tk:
        thread = await worked(tk, speech, model=OWN)
        model = drafting(OWN, dialect=speech.dialect)
        report = await thread.compact(strategy="session", model=model)
        assert report.strategy == "session"
        assert len(model.requests) > 1
        assert max(sizes(model.requests)) < 4_000
        left = (await thread.window(model=OWN)).pressure
        assert left.limits == Limits.of_window(4_000)
        assert left.tokens < left.limits.soft // 2


async def test_without_a_model_the_limits_are_those_of_the_model_that_worked_last(store_file: Path, speech: Speech) -> None:
    """Listed small, or the whole store small: the same thread is compacted to the same window."""
    async with Threadkeep(listing(store_file, mini=4_000)) as tk:
        thread = await worked(tk, speech, model=OWN)
        await thread.compact(strategy="extractive")
        listed = list(await thread.window())
    async with Threadkeep(Config(store="memory:", model_context_window=4_000)) as tk:
        thread = await worked(tk, speech, model=OWN)
        await thread.compact(strategy="extractive")
        assert listed == list(await thread.window())


async def test_a_session_compacts_to_its_models_window_by_hand_and_in_the_background(store_file: Path, speech: Speech) -> None:
    """Both know the window that is listed for the session's model."""
    async with Threadkeep(listing(store_file, mini=4_000)) as tk:
        thread = await worked(tk, speech, model=OWN, turns=10)
        model = ScriptedModel(["Hello.", *[says(block(handoff="go on"))] * 40], name=OWN, dialect=speech.dialect)
        async with Session(thread, model=model, recall=False) as session:
            await session.ask("hello")
        assert [made.reason for made in await checkpoints(thread)] == ["background"]
        behind = (await session.window()).pressure
        assert (behind.limits, behind.tokens < behind.limits.soft // 2) == (Limits.of_window(4_000), True)
        await play(thread, speech, 20, 32)
        await session.compact()
        by_hand = (await session.window()).pressure
        assert by_hand.tokens < by_hand.limits.soft
        assert max(sizes(model.requests[1:])) < 4_000


async def test_the_beginning_of_a_long_silence_about_models_is_remembered(store_file: Path, speech: Speech) -> None:
    """A host that names its model once and then no more still has that model."""
    async with Threadkeep(listing(store_file)) as tk:
        thread = await worked(tk, speech, model=OWN, turns=1)
        await play(thread, speech, 2, 24)
        assert await thread.last_model() == OWN
