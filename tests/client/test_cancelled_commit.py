"""Cancelled while a checkpoint is being written: what was written is told, to hooks and to whoever watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.parity.vocabulary import SPEECHES, config, of_kind, play

from threadkeep import Thread, Threadkeep
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.telemetry import CompactionAttempt, CompactionObserver
from threadkeep.hooks import Facts, FunctionHook, HookEvent, Hooks
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import is_failed_attempt

if TYPE_CHECKING:
    from threadkeep.store.base import FullStore

pytestmark = pytest.mark.anyio

SPEECH = SPEECHES[0]


class SlowToWrite:
    """A store that says when an append has begun, and carries it out when the test lets it."""

    def __init__(self, store: FullStore) -> None:
        self._store = store
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        if not any(map(is_failed_attempt, records)):
            self.begun.set()
            await self.go_on.wait()
        return await self._store.append(thread_id, records, expected=expected)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


class Told(CompactionObserver):
    """Keeps the checkpoints it was told of."""

    def __init__(self) -> None:
        self.checkpoints: list[int | None] = []

    def finished(self, attempt: CompactionAttempt, report: CompactionReport, *, duration_ms: int) -> None:
        self.checkpoints.append(report.checkpoint)


class Hooked:
    """Python hooks that keep which occasions they were told of; the first of them waits until the test lets it go on."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.before = asyncio.Event()
        self.after = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def pre(self, facts: Facts) -> None:
        self.heard.append(str(facts.event))
        self.before.set()
        await self.go_on.wait()

    async def post(self, facts: Facts) -> None:
        self.heard.append(str(facts.event))
        self.after.set()


class Stage:
    """A thread whose next compaction is held at its append, and everybody who is told of it."""

    def __init__(self, tk: Threadkeep, thread: Thread, hooks: Hooked, told: Told) -> None:
        self.thread = thread
        self.hooks = hooks
        self.told = told
        self.store = SlowToWrite(tk.backend.store)
        object.__setattr__(tk.backend, "store", cast("FullStore", self.store))

    async def checkpoints(self) -> list[int]:
        return [record.ordinal for record in await of_kind(self.thread, RecordKind.CHECKPOINT)]


@pytest.fixture
async def stage(store_file: Path) -> AsyncIterator[Stage]:
    hooked, told = Hooked(), Told()
    before = Hooks().on(HookEvent.PRE_COMPACT, FunctionHook(function=hooked.pre))
    hooks = before.on(HookEvent.POST_COMPACT, FunctionHook(function=hooked.post))
    async with Threadkeep(config(store_file), hooks=hooks) as tk:
        object.__setattr__(tk.backend, "policy", replace(tk.backend.policy, observer=told))
        thread = await tk.thread("t", dialect=SPEECH.dialect)
        await play(thread, SPEECH, 1, 8)
        yield Stage(tk, thread, hooked, told)


async def test_cancelled_during_the_append_the_checkpoint_is_there_and_told(stage: Stage) -> None:
    """The caller is cancelled once everybody has heard: the hooks of both occasions, and the observer, with its figures."""
    task = asyncio.create_task(stage.thread.compact(strategy="extractive"))
    await stage.store.begun.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(stage.store.go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    made = await stage.checkpoints()
    assert len(made) == 1
    assert (stage.hooks.heard, stage.told.checkpoints) == (["PreCompact", "PostCompact"], made)


async def test_cancelled_twice_the_caller_goes_and_the_rest_is_done_without_it(stage: Stage) -> None:
    """Who will not wait need not; the hooks are told all the same."""
    task = asyncio.create_task(stage.thread.compact(strategy="extractive"))
    await stage.store.begun.wait()
    for _ in range(2):
        task.cancel()
        # The first is heard before the second comes.
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stage.checkpoints() == []
    stage.store.go_on.set()
    async with asyncio.timeout(30):
        await stage.hooks.after.wait()
    assert stage.told.checkpoints == await stage.checkpoints()


async def test_cancelled_before_the_append_nothing_is_written(stage: Stage) -> None:
    """It stops where it is; nobody hears of a checkpoint."""
    stage.hooks.go_on.clear()
    task = asyncio.create_task(stage.thread.compact(strategy="extractive"))
    await stage.hooks.before.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await stage.checkpoints(), stage.hooks.heard, stage.told.checkpoints) == ([], ["PreCompact"], [])
