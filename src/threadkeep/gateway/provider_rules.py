"""What providers insist on once a history is no longer the one they saw: sealed content, bound thinking, markers, cache keys.

Reasoning and thinking that another account was issued is taken out. Thinking is more: newer models bind it to everything before
it, so that it is worth nothing in another window. It may be taken out of turns that are over, oldest first. A tool loop that is
running may not lose its thinking: there the provider is asked to drop what no longer fits, and asked again for as long as that
window is sent, so that the window changes only where a checkpoint changes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import msgspec

from threadkeep.dialects import Dialect, Request
from threadkeep.dialects.messages import markers, with_marker, without_markers, without_thinking
from threadkeep.dialects.raw_json import join_object, split_list, split_object
from threadkeep.dialects.responses.merging import is_user_message, merged
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.known import Told
from threadkeep.gateway.rewriting import Placed
from threadkeep.items import Item
from threadkeep.llm.remote import ANTHROPIC_HEADERS

# The dialect whose provider binds thinking to what stands before it, and counts cache markers.
BINDING: Final = "messages"
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
BETA_HEADER: Final = "anthropic-beta"
DROP: Final = msgspec.json.encode({"prefix_mismatch_behavior": "drop_block"})
# Models whose thinking is signed but bound to nothing: in another window it is as good as before.
_unbinding = re.compile(r"claude-(?:[23]|instant|(?:opus|sonnet|haiku)-4)")
# The dialect whose messages are merged only where a checkpoint made them neighbours.
MERGED: Final = "responses"
_takes_neighbours = re.compile(r"gpt-|chatgpt-|codex-|o\d")
MAX_MARKERS: Final = 4
LONG_LIVED: Final = b'"1h"'
COMPACTION_SIGN: Final = b'"compaction"'
MARKER_SIGN: Final = b"cache_control"
KEYED: Final = frozenset({"responses", "chat"})
KEY_FIELD: Final = "prompt_cache_key"
KEY_FIELDS: Final = (KEY_FIELD, "promptCacheKey")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A request as the provider gets it: its body, headers beside the client's own, and our estimate of what it holds."""

    body: bytes = field(repr=False)
    tokens: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def counted_tokens(upstream: Upstream) -> int:
    """Return our estimate of what the provider counts of a request; 0 where it reads nothing before its own compaction."""
    return 0 if COMPACTION_SIGN in upstream.body else upstream.tokens


def binds_thinking(model: str) -> bool:
    """Whether a model's thinking is valid only behind the history it was produced in; unknown models are taken to do so."""
    return _unbinding.search(model) is None


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
    bound = bound if dialect.name == BINDING else 0
    kept: list[Placed] = []
    for placed in window:
        depth = placed.depth if placed.sealed else None
        if depth is not None and depth <= told.issued_from:
            item = dialect.remove_sealed(placed.item)
        else:
            item = without_thinking(placed.item) if depth is not None and depth <= bound else placed.item
        if item is not None:
            kept.append(placed if item is placed.item else replace(placed, item=item))
    return kept


def drops_blocks(request: Request, headers: Mapping[str, str]) -> tuple[Request, dict[str, str]]:
    """Return a request that asks the provider to drop thinking that no longer fits, and the header that allows it.

    Without a field `thinking` none is asked for, and there is nowhere to say so.
    """
    asked = split_object(request.fields.get("thinking", b"null"))
    if asked is None:
        return request, {}
    header = with_betas(headers.get(BETA_HEADER, ""), BINDING_BETA)
    fields = {**request.fields, "thinking": join_object({**asked, "block_binding": DROP})}
    return Request(fields=fields, head=request.head, items=request.items), {BETA_HEADER: header}


def with_betas(betas: str, wanted: str) -> str:
    """Return a list of betas with one more, where it is not among them."""
    return betas if wanted in betas else f"{betas},{wanted}".lstrip(",")


def reads_compaction(window: Sequence[Placed], headers: Mapping[str, str], *, dialect: str) -> dict[str, str]:
    """Return the header without which a provider refuses the block that it put itself in place of a history."""
    if dialect != BINDING or not any(placed.depth is None and COMPACTION_SIGN in placed.item.raw for placed in window):
        return {}
    return {name: with_betas(headers.get(name, ""), beta) for name, beta in ANTHROPIC_HEADERS.items()}


def marked(window: Sequence[Placed], request: Request, *, dialect: str) -> list[Placed]:
    """Return a window with a cache marker at the end of what a checkpoint laid out, where one is free.

    A marker that lives for an hour may not follow one that lives for minutes, so beside such ones none is set.
    """
    laid_out = [index for index, placed in enumerate(window) if placed.laid_out]
    if dialect != BINDING or not laid_out:
        return list(window)
    after = window[laid_out[-1] + 1 :]
    used = _markers_beside(request) + sum(_markers_in(placed.item) for placed in window)
    if used >= MAX_MARKERS or any(LONG_LIVED in placed.item.raw and _markers_in(placed.item) for placed in after):
        return list(window)
    last = window[laid_out[-1]]
    return [*window[: laid_out[-1]], replace(last, item=with_marker(last.item)), *after]


def bound_markers(items: Sequence[Item], request: Request, *, dialect: str) -> list[Item]:
    """Return recorded items with their newest cache markers alone, as many as the request has room for.

    A client moves its markers along with every request; its items as they were recorded hold all of them.
    """
    if dialect != BINDING:
        return list(items)
    free, bound = MAX_MARKERS - _markers_beside(request), list(items)
    for index in range(len(bound) - 1, -1, -1):
        count = _markers_in(bound[index])
        if count > free:
            bound[index] = without_markers(bound[index])
        else:
            free -= count
    return bound


def brought_together(window: Sequence[Placed], seen: Seen, *, covers: int, dialect: str, model: str) -> list[Placed]:
    """Return a window in which no two messages of the user's follow each other because a checkpoint brought them together.

    OpenAI's own models take them as they are; servers that speak the Responses API through another model's template may not. A
    client whose own first `covers` items hold such neighbours has a provider that takes them. Windows of the other dialects are
    arranged as a whole.
    """
    if dialect != MERGED or not covers or _takes_neighbours.match(model) or _has_neighbours(seen.items[:covers]):
        return list(window)
    runs: list[list[Placed]] = []
    for placed in window:
        before = runs[-1][-1] if runs else None
        if before is not None and before.laid_out and is_user_message(before.item) and is_user_message(placed.item):
            runs[-1].append(placed)
        else:
            runs.append([placed])
    return [run[0] if len(run) == 1 else _one(run) for run in runs]


def _has_neighbours(items: Sequence[Item]) -> bool:
    users = [is_user_message(item) for item in items]
    return any(one and other for one, other in pairwise(users))


def _one(run: Sequence[Placed]) -> Placed:
    return replace(run[-1], item=merged([placed.item for placed in run]), tokens=sum(placed.tokens for placed in run))


def keyed(request: Request, *, root: bytes, dialect: str) -> Request:
    """Return a request with a cache key of the conversation's own, where the client sends none."""
    if dialect not in KEYED or any(name in request.fields for name in KEY_FIELDS):
        return request
    key = msgspec.json.encode(f"threadkeep-{root.hex()}")
    return Request(fields={**request.fields, KEY_FIELD: key}, head=request.head, items=request.items)


def _markers_beside(request: Request) -> int:
    """Return how many markers stand outside the history: on blocks of the system's text, on tools, on the head."""
    spans = [span for name in ("system", "tools") if MARKER_SIGN in (span := request.fields.get(name, b"null"))]
    blocks = [split_object(block) or {} for span in spans for block in split_list(span) or ()]
    on_blocks = sum(1 for block in (*blocks, request.fields) if block.get("cache_control", b"null") != b"null")
    return on_blocks + sum(_markers_in(item) for item in request.head)


def _markers_in(item: Item) -> int:
    return markers(item) if MARKER_SIGN in item.raw else 0
