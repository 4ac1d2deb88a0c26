"""The window a host is to send: compacted first where it no longer fits."""

from __future__ import annotations

from holdfast.compaction.engine import Phase
from holdfast.errors import CompactionError, CompactionStopped, Conflict, ModelError
from holdfast.llm.base import Model
from holdfast.runtime import Head, Thread, Window
from holdfast.runtime.orders import Order


async def fitting_window(
    thread: Thread,
    *,
    model: str | Model | None = None,
    head: Head | None = None,
    phase: Phase = "pre_turn",
    to_send: bool = False,
) -> Window:
    """Return the thread's window, compacted if the hard limit of `model` is reached.

    A compaction that fails loses nothing: the best window there is comes back, and its `trouble` says what went wrong.

    Args:
        model: A name, whose limits count, or a model, which the compaction may ask too.
        head: What goes out beside it, and counts.
        phase: Whether it stands before a turn or within one.
        to_send: It goes out now: calls nobody answered are shown as aborted.

    Raises:
        CompactionStopped: A hook wants the turn to end.
    """
    name = model if model is None or isinstance(model, str) else model.name
    window = await thread.window(head=head, model=name, to_send=to_send)
    if not window.pressure.must_compact:
        return window
    limits = window.pressure.limits
    order = Order(
        model=None if isinstance(model, str) else model,
        limits=limits,
        # Both are estimates of the same window, one of them corrected by what providers counted.
        fit_tokens=window.tokens * limits.hard // max(1, window.pressure.tokens),
        trigger="auto",
        phase=phase,
        reason="context_limit",
    )
    trouble: str | None = None
    try:
        await thread.carry_out(order, head=head)
    except CompactionStopped:
        raise
    except (CompactionError, Conflict, ModelError) as error:
        trouble = str(error)
    return await thread.window(head=head, model=name, trouble=trouble, to_send=to_send)
