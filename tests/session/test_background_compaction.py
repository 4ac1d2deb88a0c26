"""A compaction is under way when a turn needs one: the turn waits for it, for as long as that can help, and is not lost to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import ROOM, SPEECHES, Speech, checkpoints, config, play, seen, sent

from threadkeep import Session, Thread, Threadkeep
from threadkeep.compaction import trigger as making_room
from threadkeep.compaction.telemetry import CompactionAttempt, CompactionObserver
from threadkeep.dialects import find_dialect
from threadkeep.errors import CompactionRunning, CompactionStopped, ModelOverflow
from threadkeep.hooks import Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.items import decode_json
from threadkeep.session import Event, Trouble
from threadkeep.testing.scripted_model import Holds, Overflows, ScriptedModel, Step, says

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
LONG = "Mind this listing. " + "row of the listing\n" * 300


@pytest.fixture(params=SPEECHES, ids=[speech.dialect for speech in SPEECHES])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


class Pending:
    """An answer that a test lets come; `begun` once it was asked for."""

    def __init__(self, then: Step) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self._then = then

    def __call__(self, request: object) -> Step:
        self.begun.set()
        return Holds(until=self.go, then=self._then)


class Refused(CompactionObserver):
    """Calls back whenever a compaction is refused because another worker is at one."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def failed(self, attempt: CompactionAttempt, error: BaseException, **figures: object) -> None:
        if isinstance(error, CompactionRunning):
            self._then()


def when_refused(tk: Threadkeep, then: Callable[[], None]) -> None:
    object.__setattr__(tk.backend, "policy", replace(tk.backend.policy, observer=Refused(then)))


async def another_worker(tk: Threadkeep, clock: ManualClock) -> None:
    """Let another worker be at it, for an hour."""
    assert await tk.backend.store.acquire("compact:t", holder="another", now_ms=clock.ms, ttl_ms=HOUR_MS)


async def busy_thread(tk: Threadkeep, speech: Speech, last: int) -> Thread:
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, last)
    return thread


async def let_go_on(thread: Thread) -> None:
    """Give whoever does not wait ample opportunity to go on."""
    for _ in range(40):
        await thread.window()


def troubles(heard: list[Event]) -> list[str]:
    return [event.text for event in heard if isinstance(event, Trouble)]


async def test_past_the_hard_limit_a_turn_waits_for_the_draft_that_is_on_its_way(store_file: Path, speech: Speech) -> None:
    """Nothing is sent over the limit, no second compaction is made, and the input is in the request, last."""
    async with Threadkeep(config(store_file)) as tk:
        thread = await busy_thread(tk, speech, 10)
        draft, early = Pending(says(block(handoff="go on"))), list[bool]()

        def answers(request: object) -> Step:
            early.append(not draft.go.is_set())
            return says("Second.")

        heard: list[Event] = []
        async with (
            ScriptedModel([says("First."), draft, answers], dialect=speech.dialect, window_tokens=ROOM) as model,
            Session(thread, model=model, recall=False) as agent,
        ):
            await agent.ask("Hello.")
            await draft.begun.wait()
            turn = asyncio.create_task(agent.ask(LONG, hear=heard.append))
            await let_go_on(thread)
            draft.go.set()
            assert (await turn).text == "Second."
        assert (early, troubles(heard)) == ([False], [])
        assert [made.reason for made in await checkpoints(thread)] == ["background"]
        assert (await seen(thread))[-2] == decode_json(find_dialect(speech.dialect).make_user_message(LONG).raw)


async def test_below_the_hard_limit_nobody_waits_for_a_draft(store_file: Path, speech: Speech) -> None:
    """The answer is there while the model that drafts still thinks."""
    async with Threadkeep(config(store_file)) as tk:
        thread = await busy_thread(tk, speech, 10)
        draft = Pending(says(block(handoff="go on")))
        async with (
            ScriptedModel([says("First."), draft, says("Second.")], dialect=speech.dialect, window_tokens=ROOM) as model,
            Session(thread, model=model, recall=False) as agent,
        ):
            await agent.ask("Hello.")
            await draft.begun.wait()
            assert (await agent.ask("Go on.")).text == "Second."
            draft.go.set()


async def test_a_window_refused_while_a_draft_is_made_is_sent_again_once_it_is_there(store_file: Path, speech: Speech) -> None:
    """The provider's refusal is told; the compaction under way is the one that helps, and no other is made."""
    async with Threadkeep(config(store_file)) as tk:
        thread = await busy_thread(tk, speech, 10)
        draft, refusal = Pending(says(block(handoff="go on"))), Pending(Overflows(limit_tokens=4_000))
        steps: list[Step] = [says("First."), draft, refusal, says("Second.")]
        heard: list[Event] = []
        async with (
            ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model,
            Session(thread, model=model, recall=False) as agent,
        ):
            await agent.ask("Hello.")
            await draft.begun.wait()
            turn = asyncio.create_task(agent.ask("Go on.", hear=heard.append))
            await refusal.begun.wait()
            refusal.go.set()
            await let_go_on(thread)
            draft.go.set()
            assert (await turn).text == "Second."
        assert troubles(heard) == [str(ModelOverflow("scripted:model", limit_tokens=4_000))]
        assert [made.reason for made in await checkpoints(thread)] == ["background"]
        assert len(sent(model.bodies[3])) < len(sent(model.bodies[2]))


async def test_a_draft_that_lands_while_a_window_is_refused_needs_no_other(store_file: Path, speech: Speech) -> None:
    """What the provider refused is no longer what would be sent: that is tried first."""
    async with Threadkeep(config(store_file)) as tk:
        thread = await busy_thread(tk, speech, 10)
        draft, refusal = Pending(says(block(handoff="go on"))), Pending(Overflows())
        steps: list[Step] = [says("First."), draft, refusal, says("Second.")]
        async with (
            ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model,
            Session(thread, model=model, recall=False) as agent,
        ):
            await agent.ask("Hello.")
            await draft.begun.wait()
            turn = asyncio.create_task(agent.ask("Go on."))
            await refusal.begun.wait()
            draft.go.set()
            while (await thread.window()).checkpoint is None:
                pass
            refusal.go.set()
            assert (await turn).text == "Second."
        assert [made.reason for made in await checkpoints(thread)] == ["background"]


@pytest.mark.parametrize("event", [HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT])
async def test_a_hook_that_stops_the_compaction_after_a_refusal_ends_the_turn_in_its_own_words(
    store_file: Path, speech: Speech, event: HookEvent
) -> None:
    """It is the hook's decision that is raised, not that the window is too large."""

    def stops(facts: Facts) -> HookReply:
        return HookReply(stop=True, reason="a person is asked")

    async with Threadkeep(config(store_file), hooks=Hooks().on(event, FunctionHook(function=stops))) as tk:
        thread = await busy_thread(tk, speech, 6)
        drafts: list[Step] = [] if event is HookEvent.PRE_COMPACT else [says(block(handoff="go on"))]
        steps: list[Step] = [Overflows(), *drafts]
        async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
            with pytest.raises(CompactionStopped) as stopped:
                await Session(thread, model=model, recall=False).ask("Go on.")
    assert (stopped.value.event, stopped.value.reason) == (str(event), "a person is asked")


async def test_a_worker_that_died_is_waited_for_until_its_lease_ran_out(
    tk: Threadkeep, clock: ManualClock, speech: Speech
) -> None:
    """Then the turn makes the compaction itself: nothing goes out over the limit, and nothing is in trouble."""
    thread = await busy_thread(tk, speech, 14)
    await another_worker(tk, clock)

    def time_goes_by() -> None:
        clock.ms += HOUR_MS

    when_refused(tk, time_goes_by)
    heard: list[Event] = []
    async with ScriptedModel([says(block(handoff="go on")), says("Done.")], dialect=speech.dialect, window_tokens=ROOM) as model:
        assert (await Session(thread, model=model, recall=False).ask("Go on.", hear=heard.append)).text == "Done."
    assert troubles(heard) == []
    assert [made.reason for made in await checkpoints(thread)] == ["context_limit"]


async def test_a_compaction_in_another_process_is_waited_for_and_is_enough(store_file: Path, speech: Speech) -> None:
    """Its checkpoint is what the turn goes on with."""
    async with Threadkeep(config(store_file)) as tk, Threadkeep(config(store_file)) as other:
        thread = await busy_thread(tk, speech, 14)
        draft = Pending(says(SUMMARY))
        async with ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as drafts:
            theirs = asyncio.create_task((await other.thread("t")).compact(strategy="handoff", model=drafts))
            await draft.begun.wait()
            when_refused(tk, draft.go.set)
            heard: list[Event] = []
            async with ScriptedModel([says("Done.")], dialect=speech.dialect, window_tokens=ROOM) as model:
                assert (await Session(thread, model=model, recall=False).ask("Go on.", hear=heard.append)).text == "Done."
            await theirs
        assert troubles(heard) == []
        assert [made.strategy for made in await checkpoints(thread)] == ["handoff"]


async def test_who_compacts_for_longer_than_anybody_waits_is_told_of_and_the_turn_goes_on(
    tk: Threadkeep, clock: ManualClock, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best window there is goes out; where the provider refuses it, that is what the turn ends with."""
    monkeypatch.setattr(making_room, "PATIENCE_S", 0.0)
    thread = await busy_thread(tk, speech, 14)
    await another_worker(tk, clock)
    heard: list[Event] = []
    async with ScriptedModel([says("Done."), Overflows()], dialect=speech.dialect, window_tokens=ROOM) as model:
        agent = Session(thread, model=model, recall=False)
        assert (await agent.ask("Go on.", hear=heard.append)).text == "Done."
        assert troubles(heard) == [str(CompactionRunning("t"))]
        with pytest.raises(ModelOverflow) as refused:
            await agent.ask("And on.")
    assert isinstance(refused.value.__cause__, CompactionRunning)
    assert (await seen(thread))[-1] == decode_json(find_dialect(speech.dialect).make_user_message("And on.").raw)
