"""Which tool calls an item sequence leaves open, which outputs it orphans, and where it may be cut."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.items.item import ItemKind, View


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

    A cut never stands between a call and its output, nor between reasoning and the item it belongs to. Both ends are
    always boundaries; a call that is still open binds everything after it.
    """
    closing: dict[str, int] = {}
    for index, view in enumerate(views):
        for call_id in view.closes:
            closing[call_id] = index
    cuts: list[int] = []
    reach = -1
    for index, view in enumerate(views):
        if index > reach and not (index and views[index - 1].kind is ItemKind.REASONING):
            cuts.append(index)
        for call_id in view.opens:
            reach = max(reach, closing.get(call_id, len(views)))
    cuts.append(len(views))
    return cuts
