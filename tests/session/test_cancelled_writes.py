"""Cancelled just when something was written: the same handle goes on, and nothing is lost or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.parity.vocabulary import SPEECHES, Speech

from threadkeep import Session, Threadkeep
from threadkeep.store import NewRecord
from threadkeep.testing.scripted_model import ScriptedModel, says

pytestmark = pytest.mark.anyio


@pytest.fixture(params=SPEECHES, ids=[speech.dialect for speech in SPEECHES])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


class Cancelling:
    """Cancels whoever appends for the n-th time, once it is durable and before they know."""

    def __init__(self, tk: Threadkeep, monkeypatch: pytest.MonkeyPatch, *, at: int) -> None:
        self._append: Any = tk.backend.store.append
        self._left = at
        monkeypatch.setattr(tk.backend.store, "append", self._appended)

    async def _appended(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        reached: int = await self._append(thread_id, records, expected=expected)
        self._left -= 1
        if self._left == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        return reached


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_session_that_was_cancelled_with_a_write_takes_the_next_input(
    tk: Threadkeep, speech: Speech, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said next is recorded and answered, and what was said before stands once."""
    thread = await tk.thread("t", dialect=speech.dialect)
    model = ScriptedModel([says(f"Answer {number}.") for number in range(3)], dialect=speech.dialect, window_tokens=200_000)
    session = Session(thread, model=model, recall=False)
    with monkeypatch.context() as patch:
        Cancelling(tk, patch, at=at)
        asking = asyncio.create_task(session.ask("First."))
        await asyncio.wait({asking})
    assert asking.cancelled()
    assert (await session.ask("Second.")).text.startswith("Answer")
    window = str(list(await thread.window()))
    assert (window.count("First."), window.count("Second.")) == (1, 1)
    assert (await tk.verify()).problems == ()


async def test_a_turn_cancelled_as_mail_joined_it_goes_on(
    tk: Threadkeep, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mail is in, and the turn's next record is as good as ever."""
    thread = await tk.thread("t", dialect=speech.dialect)
    async with thread.turn([speech.said("Go on.")]) as turn:
        await turn.window()
        await turn.record([speech.call("a"), speech.output("a")])
        await thread.deliver("Mind the gap.", sender="lead", way="steer")
        with monkeypatch.context() as patch:
            Cancelling(tk, patch, at=1)
            looking = asyncio.create_task(turn.window())
            await asyncio.wait({looking})
        assert looking.cancelled()
        await turn.record([speech.answered("Done.")])
    window = str(list(await thread.window()))
    assert (window.count("Mind the gap."), window.count("Done.")) == (1, 1)
