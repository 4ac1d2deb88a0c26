"""What asking a model cost is known where no checkpoint came of it, too: by the error, and by whoever watches."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest
from tests.drafting.replies import SUMMARY
from tests.parity.vocabulary import Speech, checkpoints, play

from threadkeep import Thread, Threadkeep
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.telemetry import CompactionAttempt, CompactionObserver
from threadkeep.errors import NothingToCompact, StaleCheckpoint
from threadkeep.testing.scripted_model import Holds, Says, ScriptedModel, Step, refuses, says
from threadkeep.threads import Attempt, sum_attempts
from threadkeep.threads.records import AttemptCost

pytestmark = pytest.mark.anyio

ROOM = 200_000
HUGE = "Review this text: " + "lorem ipsum dolor " * 830
PRICED = says(SUMMARY, input_tokens=50_000, output_tokens=900, cached_tokens=40_000, cost_usd=0.2)


def cost(**figures: int) -> AttemptCost:
    """Return a cost, of which nobody cares how long it took."""
    told = msgspec.structs.replace(Attempt(strategy="handoff", outcome="taken"), **figures)
    return untimed(sum_attempts([told]))


def untimed(found: AttemptCost) -> AttemptCost:
    return replace(found, took_ms=0)


PAID = cost(calls=1, input_tokens=50_000, output_tokens=900, cached_tokens=40_000, cost_micro_usd=200_000)


class Watcher(CompactionObserver):
    """Keeps what attempts cost, whether they ended well or not."""

    def __init__(self) -> None:
        self.finishes: list[AttemptCost] = []
        self.failures: list[tuple[str, AttemptCost]] = []
        self.trials: list[Attempt] = []

    def tried(self, attempt: CompactionAttempt, trial: Attempt) -> None:
        self.trials.append(trial)

    def finished(self, attempt: CompactionAttempt, report: CompactionReport, *, duration_ms: int) -> None:
        self.finishes.append(untimed(sum_attempts(report.attempts)))

    def failed(self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, cost: AttemptCost) -> None:
        self.failures.append((type(error).__name__, untimed(cost)))


@pytest.fixture
def watcher(tk: Threadkeep) -> Watcher:
    watching = Watcher()
    object.__setattr__(tk.backend, "policy", replace(tk.backend.policy, observer=watching))
    return watching


async def long_thread(tk: Threadkeep, speech: Speech) -> Thread:
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    return thread


class Thinking:
    """A model that answers when the test lets it."""

    def __init__(self, speech: Speech, answer: Says) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self._answer = answer
        self.model = ScriptedModel([self._think], dialect=speech.dialect, window_tokens=ROOM)

    def _think(self, request: object) -> Step:
        self.asked.set()
        return Holds(until=self.go_on, then=self._answer)


async def test_a_stale_checkpoint_says_what_its_draft_cost(tk: Threadkeep, watcher: Watcher, speech: Speech) -> None:
    """The draft was taken and paid for; that its span is gone takes nothing of the bill back."""
    thread, thinking = await long_thread(tk, speech), Thinking(speech, PRICED)
    task = asyncio.create_task(thread.compact(strategy="handoff", model=thinking.model))
    await thinking.asked.wait()
    await (await tk.thread("t")).rollback(turns=3)
    thinking.go_on.set()
    with pytest.raises(StaleCheckpoint) as stale:
        await task
    assert stale.value.attempts == (
        Attempt(
            strategy="handoff",
            outcome="taken",
            model="scripted:model",
            calls=1,
            input_tokens=50_000,
            output_tokens=900,
            cached_tokens=40_000,
            cost_micro_usd=200_000,
        ),
    )
    assert watcher.failures == [("StaleCheckpoint", PAID)]


async def test_nothing_to_compact_after_a_draft_says_what_it_cost(tk: Threadkeep, watcher: Watcher, speech: Speech) -> None:
    """Every rung that was tried is named, and why it came to nothing; before anybody was asked there is none."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 1)
    await thread.record([speech.said(HUGE)])
    async with ScriptedModel([PRICED], dialect=speech.dialect, window_tokens=ROOM) as model:
        with pytest.raises(NothingToCompact) as nothing:
            await thread.compact(strategy="handoff", model=model)
    assert [(each.strategy, each.outcome, each.cost_micro_usd) for each in nothing.value.attempts] == [
        ("handoff", "nothing_to_compact", 200_000),
        ("extractive", "nothing_to_compact", None),
    ]
    assert watcher.failures == [("NothingToCompact", PAID)]
    assert tuple(watcher.trials) == nothing.value.attempts
    empty = await tk.thread("empty", dialect=speech.dialect)
    with pytest.raises(NothingToCompact) as untried:
        await empty.compact(strategy="handoff", model=ScriptedModel([], dialect=speech.dialect, window_tokens=ROOM))
    assert untried.value.attempts == ()
    assert watcher.failures[1:] == [("NothingToCompact", cost())]


async def test_a_cancelled_draft_is_a_call_that_was_made(tk: Threadkeep, watcher: Watcher, speech: Speech) -> None:
    """Nobody knows what the provider will bill for it; that it was asked is known."""
    thread, thinking = await long_thread(tk, speech), Thinking(speech, PRICED)
    task = asyncio.create_task(thread.compact(strategy="handoff", model=thinking.model))
    await thinking.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert watcher.failures == [("CancelledError", cost(calls=1))]
    assert watcher.trials == [Attempt(strategy="handoff", outcome="broken_off", model="scripted:model", calls=1)]


async def test_what_a_checkpoint_cost_counts_every_rung(tk: Threadkeep, watcher: Watcher, speech: Speech) -> None:
    """A refusal is billed like an answer."""
    thread = await long_thread(tk, speech)
    refusal = replace(refuses(), reply=replace(refuses().reply, input_tokens=50_000, output_tokens=9, cost_usd=0.1))
    async with ScriptedModel([refusal], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert report.fell_back_from == "handoff"
    paid = cost(calls=1, input_tokens=50_000, output_tokens=9, cost_micro_usd=100_000)
    assert watcher.finishes == [paid]
    assert [(trial.strategy, trial.outcome) for trial in watcher.trials] == [("handoff", "refused"), ("extractive", "taken")]


async def test_what_no_provider_told_is_unknown_and_not_nothing(tk: Threadkeep, watcher: Watcher, speech: Speech) -> None:
    """A model that was asked and counted nothing was not free."""
    thread = await long_thread(tk, speech)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert watcher.finishes == [cost(calls=1)]
    (attempt,) = report.attempts
    told = (attempt.input_tokens, attempt.output_tokens, attempt.cached_tokens, attempt.cost_micro_usd)
    assert (attempt.calls, told) == (1, (None, None, None, None))


async def test_a_provider_that_told_zero_told_something(tk: Threadkeep, watcher: Watcher, speech: Speech) -> None:
    """A cold cache and a free model are facts; they are kept as what they are."""
    thread = await long_thread(tk, speech)
    free = says(SUMMARY, input_tokens=50_000, output_tokens=900, cached_tokens=0, cost_usd=0.0)
    async with ScriptedModel([free], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    paid = cost(calls=1, input_tokens=50_000, output_tokens=900, cached_tokens=0, cost_micro_usd=0)
    assert watcher.finishes == [paid]
    (made,) = await checkpoints(await tk.thread("t"))
    assert [(attempt.cached_tokens, attempt.cost_micro_usd) for attempt in made.attempts] == [(0, 0)]
