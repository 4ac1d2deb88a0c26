"""Which tool calls an item sequence leaves open, which outputs it orphans, and where it may be cut."""

from __future__ import annotations

from collections.abc import Sequence

from threadkeep.items.item import ItemKind, View


def open_calls(views: Sequence[View]) -> list[str]:
    """Return the ids of calls that no later item closes, in the order they were opened."""
    waiting: dict[str, None] = {}
    for view in views:
        waiting.update(dict.fromkeys(view.opens))
        for call_id in view.closes:
            waiting.pop(call_id, None)
    return list(waiting)


def orphans(views: Sequence[View]) -> list[str]:
    """Return the ids of outputs whose call does not stand before them."""
    opened: set[str] = set()
    missing: list[str] = []
    for view in views:
        opened.update(view.opens)
        missing.extend(call_id for call_id in view.closes if call_id not in opened)
    return missing


def boundaries(views: Sequence[View]) -> list[int]:
    """Return every index at which the sequence can be cut in two without breaking anything.

    A cut never stands between a call and its output, nor between reasoning and the item it belongs to; a provider that
    uses a call id again opens another pair. The end is a boundary only where nothing is under way: a call still open, or
    reasoning still without its item, binds what follows it. A person's next message leaves an unanswered call behind.
    """
    reach = _reaches(views)
    cuts: list[int] = []
    bound = -1
    for index in range(len(views) + 1):
        loose = index == 0 or views[index - 1].kind is not ItemKind.REASONING
        if index > bound and loose:
            cuts.append(index)
        if index < len(views):
            bound = max(bound, reach[index])
    return cuts


def _reaches(views: Sequence[View]) -> list[int]:
    """Return, for each item, how far a cut is forbidden by the calls it opens.

    That is the output that answers the last of them; for one nobody answered, what stands before the next person's message,
    and beyond the end where no such message follows.
    """
    closing: dict[str, int] = {}
    abandoned = len(views)
    reach = [-1] * len(views)
    for index in range(len(views) - 1, -1, -1):
        view = views[index]
        for call_id in view.opens:
            reach[index] = max(reach[index], closing.pop(call_id, abandoned))
        for call_id in view.closes:
            closing[call_id] = index
        if view.by_person and view.kind is ItemKind.MESSAGE:
            abandoned = index - 1
    return reach
