"""What a compaction sheds, what it makes the provider read anew, and whether it pays to wait with it.

Providers bill what they have in their cache at about a tenth. A compaction moves the prefix once, so everything behind the move
is read anew; from then on every request is shorter. Until the hard limit comes, waiting costs only what the shorter requests
would have saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.items import Item
from holdfast.tokens import estimate_item

# Both large providers ask a tenth for what they find in their cache; what is written to it costs about what it always does.
CACHED_PRICE: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a compaction changes about later requests, in tokens.

    Attributes:
        sheds: How much shorter they are.
        rebills: How much the next one holds that no cache has.
        asks: What a draft of it reads and writes; 0 without a model.
    """

    sheds: int
    rebills: int
    asks: int = 0

    def waiting_is_cheaper(self, *, room_tokens: int, growth_tokens: int) -> bool:
        """Whether to wait while there is room: a request adds `growth_tokens`, `room_tokens` are left to the limit."""
        if room_tokens <= 0:
            return False
        requests = room_tokens / max(1, growth_tokens)
        saved = self.sheds * CACHED_PRICE * requests
        spent = self.rebills * (1 - CACHED_PRICE) + self.asks
        return saved < spent


def worth_of(before: Sequence[Item], after: Sequence[Item], *, asks: int = 0) -> Worth:
    """Return what replacing one window by another is worth; what both begin with stays in the provider's cache."""
    shared = 0
    while shared < min(len(before), len(after)) and before[shared] == after[shared]:
        shared += 1
    size = [sum(estimate_item(item.raw) for item in items) for items in (before, after)]
    kept = sum(estimate_item(item.raw) for item in after[:shared])
    return Worth(sheds=size[0] - size[1], rebills=size[1] - kept, asks=asks)
