"""Which compactions were found to gain nothing: they cost the same again, and gain nothing again, until more is there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

# A compaction that gained nothing is not tried again before the window has grown by this much.
GROWTH_PERCENT = 10
REMEMBERED = 1_024


@dataclass(slots=True)
class Futility:
    """What was tried in vain, and with how large a window; the oldest is forgotten first."""

    _tokens: dict[Hashable, int] = field(default_factory=dict)

    def holds(self, tried: Hashable, *, tokens: int) -> bool:
        """Whether this was tried with a window of about this size, and gained nothing."""
        return tokens * 100 < self._tokens.get(tried, 0) * (100 + GROWTH_PERCENT)

    def found(self, tried: Hashable, *, tokens: int) -> None:
        """Take note that this gains nothing from a window of this size."""
        self._tokens.pop(tried, None)
        self._tokens[tried] = tokens
        while len(self._tokens) > REMEMBERED:
            del self._tokens[next(iter(self._tokens))]

    def copied(self) -> Futility:
        return Futility(dict(self._tokens))
