"""A session with planted facts, divided into hops, each of which ends with a compaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.retention.facts import Fact
from benchmarks.story.session import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A session with facts.

    Attributes:
        ends: The indexes of the turns in or after which it is compacted, one a hop.
        planted_steps: How many of each turn's first steps show planted facts.
        opening: What a client of the Responses dialect puts before the first turn; others keep it in their head.
    """

    seed: int
    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...]
    ends: tuple[int, ...]
    planted_steps: tuple[int, ...]
    opening: tuple[dict[str, object], ...]

    def asked(self, hop: int) -> list[Fact]:
        """Return what can be asked for after hop `hop`, counted from one."""
        end = self.ends[hop - 1]
        return [fact for fact in self.facts if fact.due <= end and (fact.last is None or fact.last >= end)]

    def new(self, hop: int) -> list[Fact]:
        """Return what could be asked for after this hop and not before it."""
        before = self.ends[hop - 2] if hop > 1 else -1
        return [fact for fact in self.asked(hop) if fact.due > before]

    def spans(self) -> Iterator[range]:
        """Yield, for each hop, the turns that are played in it."""
        begin = 0
        for end in self.ends:
            yield range(begin, end + 1)
            begin = end + 1


def hop_ends(*, turns: int, hops: int) -> tuple[int, ...]:
    """Return the indexes of the turns in which each hop ends.

    Raises:
        ValueError: Fewer turns than hops.
    """
    if turns < hops:
        raise ValueError(f"{hops} hops need at least as many turns, not {turns}")
    return tuple((hop + 1) * turns // hops - 1 for hop in range(hops))
