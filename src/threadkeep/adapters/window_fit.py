"""The window a host sends, compacted first if it no longer fits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from threadkeep.client import Head, Thread, Window
from threadkeep.compaction.engine import Phase
from threadkeep.compaction.trigger import RoomMaker, make_order
from threadkeep.llm.base import Model


async def fit_window(
    thread: Thread,
    *,
    model: str | Model | None = None,
    head: Head | None = None,
    phase: Phase = "pre_turn",
    to_send: bool = False,
) -> Window:
    """Return the thread's window, compacted if it reached the hard limit of `model`.

    A compaction that is already running is awaited. If one fails, the best window there is comes back with its `trouble`.

    Args:
        model: A model's name, for its limits, or a model that the compaction may also ask.
        head: What is sent beside the window; it counts against the limit.
        phase: Whether the window is sent before a turn or within one.
        to_send: Show calls without an output as aborted.

    Raises:
        CompactionStopped: A hook ended the turn.
    """
    look = partial(thread.window, head=head, model=model, to_send=to_send)
    window = await look()
    if not window.pressure.must_compact:
        return window
    asked = None if isinstance(model, str) else model
    order = replace(make_order(window, model=asked, mid_turn=phase == "mid_turn", reason="context_limit"), phase=phase)
    room = RoomMaker(
        look=look,
        compact=partial(thread.carry_out, head=head),
        upkeep_is_over=thread.upkeep_is_over,
        wait_s=thread.draft_wait_s,
    )
    return await room.fitting(order)
