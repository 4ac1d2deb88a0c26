"""What providers insist on once a history is no longer the one they saw: sealed content, bound thinking, markers, cache keys.

Reasoning and thinking that another account was issued is taken out. Thinking is more: newer models bind it to everything before
it, so that it is worth nothing in another window. It may be taken out of turns that are over, oldest first. A tool loop that is
running may not lose its thinking: there the provider is asked to drop what no longer fits, and asked again for as long as that
window is sent, so that the window changes only where a checkpoint changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from threadkeep.dialects import Dialect, Request
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.known import Told
from threadkeep.gateway.rewriting import Placed
from threadkeep.items import Item

COMPACTION_SIGN: Final = b'"compaction"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A request as the provider gets it: its body, headers beside the client's own, and our estimate of what it holds."""

    body: bytes = field(repr=False)
    tokens: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def counted_tokens(upstream: Upstream) -> int:
    """Return our estimate of what the provider counts of a request; 0 where it reads nothing before its own compaction."""
    return 0 if COMPACTION_SIGN in upstream.body else upstream.tokens


def loop_start(seen: Seen, *, until: int) -> int | None:
    """Return where the tool loop begins that was running on sealed thinking after the first `until` items; None if none was.

    What came later does not matter, so that the answer is the same for every request of a window.
    """
    before = seen.glances[:until]
    asked = [index for index, glance in enumerate(before) if glance.by_person and not seen.aside[index]]
    start = asked[-1] + 1 if asked else 0
    goes_on = seen.in_tool_loop and len(seen.glances) - len(seen.turn) == start
    is_running = bool(before) and (before[-1].is_output or goes_on)
    return start if is_running and any(glance.is_sealed for glance in before[start:]) else None


def legal(window: Sequence[Placed], told: Told, *, dialect: Dialect, bound: int) -> list[Placed]:
    """Return a window without what its provider would refuse: what others sealed, and thinking of the first `bound` items."""
    thinking = dialect.api.thinking
    kept: list[Placed] = []
    for placed in window:
        depth = placed.depth if placed.sealed else None
        item: Item | None = placed.item
        if depth is not None and depth <= told.issued_from:
            item = dialect.remove_sealed(placed.item)
        elif thinking is not None and depth is not None and depth <= bound:
            item = thinking.remove_thinking(placed.item)
        if item is not None:
            kept.append(placed if item is placed.item else replace(placed, item=item))
    return kept


def marked(window: Sequence[Placed], request: Request, *, dialect: Dialect) -> list[Placed]:
    """Return a window with a cache marker at the end of what a checkpoint laid out, where one is free."""
    markers = dialect.api.cache_markers
    at = _last_laid_out(window)
    if markers is None or at is None:
        return list(window)
    item = markers.mark_item([placed.item for placed in window], request, at=at)
    return [*window[:at], replace(window[at], item=item), *window[at + 1 :]]


def brought_together(window: Sequence[Placed], seen: Seen, *, covers: int, dialect: Dialect, model: str) -> list[Placed]:
    """Return a window in which no two messages of the user's follow each other because a checkpoint brought them together.

    A client whose own first `covers` items hold such neighbours has a provider that takes them.
    """
    merger = dialect.api.merger
    if merger is None or not covers or merger.takes_neighbours(model):
        return list(window)
    users = [merger.is_user_message(item) for item in seen.items[:covers]]
    if any(one and other for one, other in pairwise(users)):
        return list(window)
    runs: list[list[Placed]] = []
    for placed in window:
        before = runs[-1][-1] if runs else None
        if before is not None and before.laid_out and merger.is_user_message(before.item) and merger.is_user_message(placed.item):
            runs[-1].append(placed)
        else:
            runs.append([placed])
    return [
        run[0]
        if len(run) == 1
        else replace(
            run[-1], item=merger.merge_messages([placed.item for placed in run]), tokens=sum(placed.tokens for placed in run)
        )
        for run in runs
    ]


def pointed(window: Sequence[Placed], request: Request, *, dialect: Dialect) -> tuple[list[Placed], Request]:
    """Return a window and its request with a breakpoint at the end of the head and of what a checkpoint laid out.

    A client that sets any itself is left alone.
    """
    cache = dialect.api.prompt_cache
    raws = (*request.fields.values(), *(item.raw for item in request.head), *(placed.item.raw for placed in window))
    if cache is None or any(map(cache.has_breakpoint, raws)):
        return list(window), request
    head = cache.set_breakpoint(request.head[-1]) if request.head else None
    if head is not None:
        request = replace(request, head=(*request.head[:-1], head))
    for at in range(len(window) - 1, -1, -1):
        item = cache.set_breakpoint(window[at].item) if window[at].laid_out else None
        if item is not None:
            return [*window[:at], replace(window[at], item=item), *window[at + 1 :]], request
    return list(window), request


def _last_laid_out(window: Sequence[Placed]) -> int | None:
    return next((at for at in range(len(window) - 1, -1, -1) if window[at].laid_out), None)
