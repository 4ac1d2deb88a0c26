"""Computes the savings of a compaction, the tokens that it makes the provider read again, and whether waiting is cheaper.

Providers bill cached tokens at about a tenth. A compaction changes the prefix once, so everything after the change is read again;
then every request is shorter. A later compaction costs the same, but a window compacted later is compacted less often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median_low
from typing import Final

from threadkeep.compaction.plan import Position
from threadkeep.compaction.state_budget import estimate_state
from threadkeep.compaction.strategies.strategy import Brief
from threadkeep.errors import NothingToCompact
from threadkeep.items import Item, Role
from threadkeep.tokens import estimate_item

# Both large providers bill cached input at a tenth; writing to the cache costs about the normal price.
CACHED_PRICE: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a compaction changes about later requests, in tokens.

    Attributes:
        sheds: The tokens that each later request saves.
        rebills: The uncached tokens of the next request.
        asks: The tokens that a draft reads and writes; 0 without a model.
    """

    sheds: int
    rebills: int
    asks: int = 0

    def waiting_is_cheaper(self, *, room_tokens: int, growth_tokens: int) -> bool:
        """Whether to wait while `room_tokens` are left to the limit, where a request adds `growth_tokens`.

        A thread that goes on is compacted whenever what was shed has come again: now after `sheds` tokens each time, at the limit
        after the room as well. Now, then, its requests are shorter by half the room on average, and it is compacted more often.

        Somebody waits at the limit for what was not prepared. So the price decides only where it would be compacted more than
        twice as often, that is, where less is shed than there is room.
        """
        if self.sheds >= room_tokens:
            return False
        if self.sheds <= 0:
            return True
        saved = CACHED_PRICE * room_tokens / 2
        more_often = growth_tokens / self.sheds - growth_tokens / (self.sheds + room_tokens)
        return saved < (self.rebills * (1 - CACHED_PRICE) + self.asks) * more_often


def compute_worth(before: Sequence[Item], after: Sequence[Item], *, asks: int = 0) -> Worth:
    """Return what replacing one window by another is worth; what both begin with stays in the provider's cache."""
    shared = 0
    while shared < min(len(before), len(after)) and before[shared] == after[shared]:
        shared += 1
    size = [sum(estimate_item(item.raw) for item in items) for items in (before, after)]
    kept = sum(estimate_item(item.raw) for item in after[:shared])
    return Worth(sheds=size[0] - size[1], rebills=size[1] - kept, asks=asks)


def foresee_worth(brief: Brief, *, quoted_tokens: int, draft_price: float) -> Worth:
    """Return the estimated worth of a plan before a model is asked.

    The state counts with its present length: its growth is unknown, and an error here favours not waiting.

    Args:
        quoted_tokens: The budget for people's messages behind the state.
        draft_price: The price of a window token in the draft's request: 0 without a model, less than 1 from a cache.
    """
    plan = brief.plan
    said = sum(seen.entry.tokens for seen in plan.replaced if seen.view.by_person)
    after = plan.kept_tokens + min(said, quoted_tokens) + estimate_state(brief.ledger)
    front = (*plan.head, *plan.context)
    pairs = takewhile(lambda pair: pair[0].entry is pair[1].entry, zip(brief.window, front, strict=False))
    shared = sum(seen.entry.tokens for seen, _ in pairs)
    return Worth(sheds=plan.tokens_before - after, rebills=after - shared, asks=round(plan.tokens_before * draft_price))


def measure_request_growth(window: Sequence[Position]) -> int:
    """Return the median growth of a window per request, with its answer; 0 without an answer."""
    return median_low(list(_measure_additions(window)) or [0])


def _measure_additions(window: Sequence[Position]) -> Iterator[int]:
    added, answering = 0, False
    for seen in window:
        is_answer = seen.view.role is Role.ASSISTANT
        if answering and not is_answer:
            yield added
            added = 0
        added, answering = added + seen.entry.tokens, is_answer
    if answering:
        yield added


def check_worth_now(brief: Brief, *, quoted_tokens: int, room_tokens: int, draft_price: float) -> None:
    """Check that an early compaction is worth its cost; see `foresee_worth` for the arguments.

    Raises:
        NothingToCompact: Waiting is cheaper, and there is room.
    """
    worth = foresee_worth(brief, quoted_tokens=quoted_tokens, draft_price=draft_price)
    growth = measure_request_growth([seen for seen in brief.window if seen.entry.after_cut])
    if worth.waiting_is_cheaper(room_tokens=room_tokens, growth_tokens=growth):
        raise NothingToCompact(
            brief.thread_id,
            reason=f"it would shed about {max(0, worth.sheds)} tokens and have {worth.rebills} read anew, "
            f"while {room_tokens} are left to the limit, where it costs less",
        )
