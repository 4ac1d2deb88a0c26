"""One host at a time runs a thread's turn; where it dies or is cut off, another goes on in its place, and it learns of that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.histories import answered, said
from tests.threads.agent import recorded

from threadkeep import Config, Thread, Threadkeep
from threadkeep.errors import InvalidItem, TurnRunning, TurnTakenOver
from threadkeep.threads import lease as turn_lease
from threadkeep.threads.lease import TURN_LEASE_MS
from threadkeep.threads.turn_state import TurnState

if TYPE_CHECKING:
    from tests.conftest import ManualClock
    from tests.threads.conftest import Opens

pytestmark = pytest.mark.anyio


async def states(thread: Thread) -> list[tuple[int, TurnState]]:
    return [(turn.number, turn.state) for turn in await thread.turns()]


async def test_a_turn_is_refused_while_another_host_runs_one(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second is told so, nothing of theirs is recorded, and the first one's turn ends as if nobody had come."""
    monkeypatch.setattr(turn_lease, "TURN_PATIENCE_S", 0.0)
    async with opens() as first, opens() as second:
        mine, theirs = await first.thread("t"), await second.thread("t")
        async with mine.turn([said("Go.")]) as turn:
            for incoming in ([said("Me too.")], []):
                with pytest.raises(TurnRunning) as refused:
                    async with theirs.turn(incoming):
                        pytest.fail("two hosts run one turn")
                assert (refused.value.thread_id, refused.value.code) == ("t", "turn_running")
            async with (await second.thread("other")).turn([said("Elsewhere.")]):
                pass
            await turn.record([answered("Done.")])
        assert await recorded(mine) == [said("Go."), answered("Done.")]
        assert await states(mine) == [(1, TurnState.CLOSED)]
        async with theirs.turn([said("Now?")]) as turn:
            await turn.record([answered("Now.")])
        assert await states(mine) == [(1, TurnState.CLOSED), (2, TurnState.CLOSED)]


async def test_two_hosts_woken_by_one_mail_answer_it_once(opens: Opens) -> None:
    """The second waits for the first, and then finds nothing left to do: no model is asked twice, no tool run twice."""
    async with opens() as first, opens() as second:
        mine, theirs = await first.thread("t"), await second.thread("t")
        await mine.deliver("What is the port?", sender="lead", way="trigger")

        async def woken() -> bool:
            async with theirs.turn([]) as turn:
                return await turn.goes_on()

        async with mine.turn([]) as turn:
            rival = asyncio.create_task(woken())
            await turn.window()
            await turn.record([answered("It is 8443.")])
            assert not rival.done()
        assert await rival is False
        assert await states(mine) == [(1, TurnState.CLOSED)]


async def test_the_turn_of_a_dead_host_is_taken_over(opens: Opens, clock: ManualClock) -> None:
    """Once its lease has run out another goes on with the same turn; the first, if it was only asleep, changes nothing more."""
    async with opens() as first, opens() as second:
        mine, theirs = await first.thread("t"), await second.thread("t")
        scope = mine.turn([said("Go.")])
        suspended = await scope.__aenter__()
        await suspended.window()
        clock.ms += TURN_LEASE_MS
        async with theirs.turn([]) as turn:
            assert await turn.window() == [said("Go.")]
            with pytest.raises(TurnTakenOver):
                await suspended.record([answered("Too late.")])
            with pytest.raises(TurnTakenOver) as taken:
                await suspended.window()
            await scope.__aexit__(type(taken.value), taken.value, None)
            await turn.record([answered("Done.")])
        assert await recorded(theirs) == [said("Go."), answered("Done.")]
        assert await states(theirs) == [(1, TurnState.CLOSED)]


async def test_a_host_nobody_took_over_from_goes_on(opens: Opens, clock: ManualClock) -> None:
    """A laptop that slept through its lease has lost nothing as long as nobody else wanted the turn."""
    async with opens() as tk:
        thread = await tk.thread("t")
        async with thread.turn([said("Go.")]) as turn:
            clock.ms += 10 * TURN_LEASE_MS
            await turn.window()
            await turn.record([answered("Done.")])
        assert await states(thread) == [(1, TurnState.CLOSED)]


async def test_a_turn_that_fails_to_begin_or_to_end_well_is_given_back(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled, ended by an error or refused by its input, it stands in nobody's way."""
    monkeypatch.setattr(turn_lease, "TURN_PATIENCE_S", 0.0)
    async with opens() as first, opens() as second:
        mine, theirs = await first.thread("t"), await second.thread("t")
        with pytest.raises(ConnectionError):
            async with mine.turn([said("Go.")]):
                raise ConnectionError
        with pytest.raises(asyncio.CancelledError):
            async with theirs.turn([said("Go on.")]):
                raise asyncio.CancelledError
        with pytest.raises(InvalidItem):
            async with mine.turn([{"type": "message", "content": float("nan")}]):
                pytest.fail("that is no item")
        async with theirs.turn([]):
            pass


class AskedClock:
    """A clock that stands still, and lets a test wait until somebody looks at it."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000
        self._asked = asyncio.Event()

    def now_ms(self) -> int:
        self._asked.set()
        return self.ms

    async def looked_at(self, times: int) -> None:
        for _ in range(times):
            self._asked.clear()
            await self._asked.wait()


async def test_a_lease_is_renewed_while_its_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes longer to answer than a lease lasts does not cost the host its turn."""
    monkeypatch.setattr(turn_lease, "TURN_RENEWAL_S", 0.0)
    monkeypatch.setattr(turn_lease, "TURN_PATIENCE_S", 0.0)
    clock = AskedClock()
    async with Threadkeep(Config(store="memory:"), clock=clock) as tk:
        mine, theirs = await tk.thread("t"), await tk.thread("t")
        async with mine.turn([said("Go.")]) as turn:
            for _ in range(4):
                clock.ms += TURN_LEASE_MS // 2
                # Looked at once more, the renewal before is through.
                await clock.looked_at(2)
            with pytest.raises(TurnRunning):
                async with theirs.turn([]):
                    pytest.fail("two hosts run one turn")
            await turn.record([answered("Done.")])
        assert await recorded(mine) == [said("Go."), answered("Done.")]
