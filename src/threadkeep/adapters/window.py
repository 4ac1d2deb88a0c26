"""The window a host is to send: compacted first where it no longer fits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from threadkeep.client import Head, Thread, Window
from threadkeep.compaction.engine import Phase
from threadkeep.compaction.trigger import MakingRoom, order_for
from threadkeep.llm.base import Model


async def fitting_window(
    thread: Thread,
    *,
    model: str | Model | None = None,
    head: Head | None = None,
    phase: Phase = "pre_turn",
    to_send: bool = False,
) -> Window:
    """Return the thread's window, compacted if the hard limit of `model` is reached.

    Where one is under way, that is waited for. One that fails loses nothing: the best window there is comes back, and its
    `trouble` says what went wrong.

    Args:
        model: A name, whose limits count, or a model, which the compaction may ask too.
        head: What goes out beside it, and counts.
        phase: Whether it stands before a turn or within one.
        to_send: It goes out now: calls nobody answered are shown as aborted.

    Raises:
        CompactionStopped: A hook wants the turn to end.
    """
    look = partial(thread.window, head=head, model=model, to_send=to_send)
    window = await look()
    if not window.pressure.must_compact:
        return window
    asked = None if isinstance(model, str) else model
    order = replace(order_for(window, model=asked, mid_turn=phase == "mid_turn", reason="context_limit"), phase=phase)
    room = MakingRoom(
        look=look,
        compact=partial(thread.carry_out, head=head),
        upkeep_is_over=thread.upkeep_is_over,
        wait_s=thread.draft_wait_s,
    )
    return await room.fitting(order)
