"""A history as a provider accepts it, whatever broke it off: open calls are closed, thoughts that led to nothing left out.

Only what is shown changes. The records keep what happened, so an output that comes late is there the next time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind, Role, View

# An item without any of these, in any dialect, neither opens nor closes a call and is no thought. Most of a history is text, and
# finding out who really said it is what makes a view dear.
MARKS: Final = (b"call", b"tool", b"reasoning", b"thinking", b"thought", b"mcp")
_MESSAGE: Final = View(kind=ItemKind.MESSAGE, role=Role.USER)


@dataclass(slots=True)
class _Pairs:
    """Which outputs come too late, by the call they go back to, and which calls nobody answered."""

    late: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unanswered: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))


def closed(items: Sequence[Item], *, dialect: Dialect, under_way: bool) -> list[Item]:
    """Return `items` with every call answered: by its output, else by one that says it was aborted.

    An output behind a message that came meanwhile goes back to its call. Deterministic, and stable under appending.

    Args:
        under_way: Whether the end is still being worked on: calls and thoughts that no message follows are then left as they are.
    """
    views = [dialect.view(item) if any(mark in item.raw for mark in MARKS) else _MESSAGE for item in items]
    last_message = max((at for at, view in enumerate(views) if view.kind is ItemKind.MESSAGE), default=-1)
    settled = last_message if under_way else len(items)
    pairs = _pairs(views, settled=settled)
    moved = {at for outputs in pairs.late.values() for at in outputs}
    shown: list[Item] = []
    for at, item in enumerate(items):
        if at in moved or (at < settled and _is_loose_thought(views[at], items[at + 1 : at + 2], dialect=dialect)):
            continue
        shown.append(item)
        shown.extend(items[output] for output in pairs.late.get(at, ()))
        shown.extend(dialect.abort_calls(item, pairs.unanswered[at]) if at in pairs.unanswered else ())
    return shown


def _pairs(views: Sequence[View], *, settled: int) -> _Pairs:
    pairs = _Pairs()
    opened: dict[str, int] = {}
    messages = 0
    messages_at: list[int] = []
    for at, view in enumerate(views):
        messages_at.append(messages)
        messages += view.kind is ItemKind.MESSAGE
        callers = [opened.pop(call_id) for call_id in view.closes if call_id in opened]
        if callers and view.kind is ItemKind.OUTPUT and messages_at[max(callers)] < messages_at[at]:
            pairs.late[max(callers)].append(at)
        for call_id in view.opens:
            if call_id in opened:
                pairs.unanswered[opened[call_id]].append(call_id)
            opened[call_id] = at
    for call_id, at in opened.items():
        if at < settled:
            pairs.unanswered[at].append(call_id)
    return pairs


def _is_loose_thought(view: View, following: Sequence[Item], *, dialect: Dialect) -> bool:
    """Whether a thought led to nothing: what follows it is not the model's own message or call."""
    if view.kind is not ItemKind.REASONING:
        return False
    after = [dialect.view(item) for item in following]
    return not after or after[0].role is not Role.ASSISTANT or after[0].kind is ItemKind.REASONING
