"""Room in the window of a turn: which compaction it calls for or leaves time for, and whose is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from threadkeep.compaction.backend import ADOPTED, Order, Reason
from threadkeep.compaction.engine import Phase
from threadkeep.compaction.fallback import Deadline
from threadkeep.errors import CompactionError, CompactionRunning, CompactionStopped, Conflict, ModelError
from threadkeep.hooks import HookEvent
from threadkeep.llm.base import Model
from threadkeep.threads.lease import LEASE_MS
from threadkeep.threads.window import Window
from threadkeep.tokens import Pressure

# How long another process is waited for: who is not done by then, nor let its lease run out, is alive.
PATIENCE_S: Final = LEASE_MS / 1_000
# How often it is looked whether it is over: its draft takes seconds or minutes.
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMaker:
    """Makes room in one turn's window.

    Attributes:
        look: Returns the window as it is now.
        compact: Makes a compaction of the thread.
        upkeep_is_over: Returns once nothing is compacted beside the turn, and whether anything was; no draft may be later.
        wait_s: How long a model's draft is waited for, whoever asked for it; then the room is made without one.
    """

    look: Callable[[], Awaitable[Window]]
    compact: Callable[[Order], Awaitable[object]]
    upkeep_is_over: Callable[[Deadline], Awaitable[bool]]
    wait_s: float

    async def fitting(self, order: Order) -> Window:
        """Return the window once it fits; where that cannot be had, the one there is, whose `trouble` says why.

        Raises:
            CompactionStopped: A hook said so.
        """
        trouble: str | None = None
        try:
            await self.carry_out(order, is_enough=_fits)
        except CompactionStopped:
            raise
        except (CompactionError, Conflict, ModelError) as error:
            trouble = str(error)
        after = await self.look()
        # Another worker's checkpoint may have come between the last look and this one's turn: then nothing is due any more.
        after.trouble = None if _fits(after) else trouble
        return after

    async def adopt(self, order: Order) -> bool:
        """Make what the provider compacted by itself the checkpoint; false where that comes to nothing.

        Nothing calls for it, so nobody waits: where a compaction is under way, the next request may try again.

        Raises:
            CompactionStopped: A PostCompact hook said so; one before it leaves the item where it is.
        """
        try:
            await self.compact(order)
        except CompactionRunning:
            return True
        except CompactionStopped as stopped:
            if stopped.event != HookEvent.PRE_COMPACT:
                raise
            return False
        except (CompactionError, Conflict):
            return False
        return True

    async def carry_out(self, order: Order, *, is_enough: Callable[[Window], bool]) -> None:
        """Compact as ordered. Where a compaction is under way, wait: its checkpoint will do if the window `is_enough` then.

        No turn waits for a model's draft longer than `wait_s`: then the room is made without one. A worker that died is waited
        for until its lease has run out.

        Raises:
            CompactionError: It did not happen, and the window is what it was; `CompactionStopped` if a hook said so.
            Conflict: Another worker was still at it after as long as a lease lasts, or moved the thread meanwhile.
        """
        if order.trigger == "auto":
            order.deadline.set(seconds=self.wait_s)
        waited = await self.upkeep_is_over(order.deadline)
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + PATIENCE_S, FIRST_PAUSE_S
        while not (waited and is_enough(await self.look())):
            try:
                await self.compact(order)
            except CompactionRunning:
                if loop.time() >= until:
                    raise
            else:
                return
            await asyncio.sleep(pause)
            pause, waited = min(2 * pause, LONGEST_PAUSE_S), True


def make_order(window: Window, *, model: Model | None, mid_turn: bool, reason: Reason) -> Order:
    """Return the compaction a full window calls for; before the first answer it stands in front of the turn."""
    pressure = window.pressure
    # Where a prefix is not charged, the hard limit bounds what came after it, and the window may fill the whole.
    most = pressure.limits.full if pressure.uncharged else pressure.limits.hard
    return Order(
        model=model,
        limits=pressure.limits,
        # Both are estimates of the same window, one of them corrected by what providers counted.
        fit_tokens=window.tokens * most // max(1, pressure.tokens),
        trigger="auto",
        phase="mid_turn" if mid_turn else "pre_turn",
        reason=reason,
    )


def make_adoption_order(window: Window, *, model: Model, mid_turn: bool) -> Order:
    """Return the compaction that has been made already: its provider's own, written in an answer."""
    return Order(
        model=model,
        limits=window.pressure.limits,
        trigger="auto",
        phase="mid_turn" if mid_turn else "pre_turn",
        reason=ADOPTED,
        forced=True,
        adopting=True,
    )


def make_background_order(pressure: Pressure, *, model: Model | None, phase: Phase) -> Order:
    """Return the compaction that is made beside whatever comes next, for a window that is not full yet."""
    return Order(
        model=model,
        limits=pressure.limits,
        trigger="auto",
        phase=phase,
        reason="background",
        room_tokens=measure_room(pressure),
    )


def measure_room(pressure: Pressure) -> int | None:
    """Return how much may still come into a window that is not full; None where it is, or where its bytes are what fills it."""
    if pressure.must_compact or pressure.binds == "bytes":
        return None
    limits, charged = pressure.limits, pressure.tokens - pressure.uncharged
    return min(limits.hard - charged, limits.full - pressure.tokens)


def _fits(window: Window) -> bool:
    return not window.pressure.must_compact
