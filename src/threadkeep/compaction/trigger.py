"""Decides when a turn's window needs a compaction, which one, and how long the turn waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from threadkeep.compaction.backend import ADOPTED, Order, Reason
from threadkeep.compaction.fallback import Deadline
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.errors import CompactionError, CompactionRunning, CompactionStopped, Conflict, ModelError
from threadkeep.hooks import HookEvent
from threadkeep.llm.base import Model
from threadkeep.threads.lease import LEASE_MS
from threadkeep.threads.window import Window
from threadkeep.tokens import Pressure

# How long to wait for another process: as long as a lease, so that a dead worker's lease has run out by then.
PATIENCE_S: Final = LEASE_MS / 1_000
# The pauses between two looks at whether it is done: a draft takes seconds or minutes.
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMaker:
    """Makes room in one turn's window.

    Attributes:
        look: Returns the window as it is now.
        compact: Makes a compaction of the thread.
        upkeep_is_over: Waits for a background compaction, which must end by the deadline; returns whether there was one.
        wait_s: How long to wait for a model's draft; then the compaction goes on without a model.
    """

    look: Callable[[], Awaitable[Window]]
    compact: Callable[[Order], Awaitable[object]]
    upkeep_is_over: Callable[[Deadline], Awaitable[bool]]
    wait_s: float

    async def fitting(self, order: Order) -> Window:
        """Return the window once it fits; if that fails, the window as it is, with the reason in `trouble`.

        Raises:
            CompactionStopped: A hook stopped the compaction.
        """
        trouble: str | None = None
        try:
            await self.carry_out(order, is_enough=_fits)
        except CompactionStopped:
            raise
        except (CompactionError, Conflict, ModelError) as error:
            trouble = str(error)
        after = await self.look()
        # Another worker's checkpoint may have arrived since; then nothing is due.
        after.trouble = None if _fits(after) else trouble
        return after

    async def adopt(self, order: Order) -> bool:
        """Make the provider's own compaction the checkpoint; return whether that worked.

        It is never urgent: if another compaction is running, the next request may try again.

        Raises:
            CompactionStopped: A PostCompact hook stopped it; a PreCompact hook only leaves the item in place.
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
        """Compact as ordered. If a compaction is running, wait for it: its checkpoint will do if the window `is_enough` then.

        No turn waits longer than `wait_s` for a draft; then it compacts without a model. A dead worker is waited for until its
        lease has run out.

        Raises:
            CompactionError: The compaction failed, and the window is unchanged; `CompactionStopped` if a hook stopped it.
            Conflict: Another worker was still compacting after the time of a lease, or moved the thread.
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
    """Return the order for a full window."""
    pressure = window.pressure
    # If a prefix is not charged, the hard limit bounds only the part after it, and the window may use the full size.
    most = pressure.limits.full if pressure.uncharged else pressure.limits.hard
    return Order(
        model=model,
        limits=pressure.limits,
        # Both estimate the same window; the pressure is corrected by the provider's counts.
        fit_tokens=window.tokens * most // max(1, pressure.tokens),
        trigger="auto",
        phase="mid_turn" if mid_turn else "pre_turn",
        reason=reason,
    )


def make_adoption_order(window: Window, *, model: Model, mid_turn: bool) -> Order:
    """Return the order that makes the provider's own compaction the checkpoint."""
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
    """Return the order for a compaction in the background, for a window that is not full yet."""
    return Order(
        model=model,
        limits=pressure.limits,
        trigger="auto",
        phase=phase,
        reason="background",
        room_tokens=measure_room(pressure),
    )


def measure_room(pressure: Pressure) -> int | None:
    """Return the room left in a window in tokens; None if it is full, or if bytes are its tightest limit."""
    if pressure.must_compact or pressure.binds == "bytes":
        return None
    limits, charged = pressure.limits, pressure.tokens - pressure.uncharged
    return min(limits.hard - charged, limits.full - pressure.tokens)


def _fits(window: Window) -> bool:
    return not window.pressure.must_compact
