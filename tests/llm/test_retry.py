"""Asking again: when, how often, and how long to wait in between."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial

import pytest
from tests.llm.wires import RESPONSES

from threadkeep.errors import ModelOverflow, ModelRejected, ModelUnavailable
from threadkeep.llm import RetryPolicy
from threadkeep.testing.scripted_model import (
    Compacts,
    Overflows,
    Rejected,
    ScriptedModel,
    ScriptedRemoteModel,
    Unavailable,
)

pytestmark = pytest.mark.anyio

REQUEST = RESPONSES.request


@dataclass
class Night:
    """Time that passes only in the record: every wait is noted and over at once."""

    jitter: float = 0.5
    waits: list[float] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def ask(self, model: ScriptedModel, *, attempts: int = 5) -> str:
        policy = RetryPolicy(attempts=attempts, sleep=self.sleep, jitter=lambda: self.jitter)
        reply = await policy.run(partial(model.ask, REQUEST), on_attempt=self.attempts.append)
        return reply.text


async def test_an_answer_at_once_takes_no_waiting() -> None:
    """One attempt is made, and told."""
    night = Night()
    async with ScriptedModel(["yes"]) as model:
        assert await night.ask(model) == "yes"
    assert (night.waits, night.attempts) == ([], [1])


async def test_waits_double_from_two_hundred_milliseconds() -> None:
    """A dropped stream and an overloaded provider are asked again, each time after twice as long."""
    night = Night()
    async with ScriptedModel([Unavailable(), Unavailable(), Unavailable(), Unavailable(), "yes"]) as model:
        assert await night.ask(model) == "yes"
    assert night.waits == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert night.attempts == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 0.9), (1.0, 1.1)])
async def test_waits_differ_by_a_tenth(jitter: float, factor: float) -> None:
    """Chance moves a wait by ten per cent at most, so that many who were refused together do not come back together."""
    night = Night(jitter=jitter)
    async with ScriptedModel([Unavailable(), Unavailable(), "yes"]) as model:
        await night.ask(model)
    assert night.waits == pytest.approx([0.2 * factor, 0.4 * factor])


async def test_a_wait_the_provider_asks_for_is_kept() -> None:
    """To the moment: neither doubled nor left to chance."""
    night = Night(jitter=0.0)
    async with ScriptedModel([Unavailable(retry_after_s=7.5), Unavailable(retry_after_s=0.0), "yes"]) as model:
        await night.ask(model)
    assert night.waits == [7.5, 0.0]


async def test_a_wait_beyond_the_cap_is_not_waited() -> None:
    """Whoever is sent away for an hour goes on without the answer, and is told for how long."""
    night = Night()
    async with ScriptedModel([Unavailable(retry_after_s=3600)]) as model:
        with pytest.raises(ModelUnavailable) as caught:
            await night.ask(model)
    assert (caught.value.retry_after_s, night.waits) == (3600, [])


async def test_waits_grow_to_a_minute_and_no_further() -> None:
    """However many attempts there are."""
    night = Night(jitter=1.0)
    async with ScriptedModel([Unavailable()] * 14 + ["yes"]) as model:
        await night.ask(model, attempts=20)
    assert max(night.waits) == night.waits[-1] == 60.0


async def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    """There is no wait behind the last attempt."""
    night = Night()
    async with ScriptedModel([Unavailable(reason="first"), Unavailable(reason="last")]) as model:
        with pytest.raises(ModelUnavailable, match="last"):
            await night.ask(model, attempts=2)
    assert (len(night.waits), night.attempts) == (1, [1, 2])


@pytest.mark.parametrize(("step", "kind"), [(Overflows(limit_tokens=9), ModelOverflow), (Rejected(), ModelRejected)])
async def test_what_asking_again_cannot_mend_is_raised_at_once(step: Overflows | Rejected, kind: type[Exception]) -> None:
    """An overflow and a rejection stay what they are however often one asks."""
    night = Night()
    async with ScriptedModel([step]) as model:
        with pytest.raises(kind):
            await night.ask(model)
    assert night.attempts == [1]


async def test_cancelling_a_wait_asks_no_more() -> None:
    """Whoever gives up while waiting is not asked for again."""
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with ScriptedModel([Unavailable()]) as model:
        asking = asyncio.create_task(RetryPolicy(sleep=sleep).run(partial(model.ask, REQUEST)))
        await waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_a_compaction_at_the_provider_is_asked_for_with_the_same_patience() -> None:
    """Compacting fails and recovers like asking."""
    night = Night()
    item = {"type": "compaction", "encrypted_content": "e"}
    async with ScriptedRemoteModel([Unavailable(), Compacts(items=(item,))]) as model:
        policy = RetryPolicy(attempts=3, sleep=night.sleep)
        made = await policy.run(partial(model.compact, REQUEST), on_attempt=night.attempts.append)
    assert (len(made.items), made.issuer, night.attempts) == (1, "scripted#account", [1, 2])
