"""Counts results cell by cell, and computes shares and intervals from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt

from benchmarks.retention.facts import FactKind

# Two-sided 95 % of a normal distribution.
_Z = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One arm after one hop of one session, for facts of one kind."""

    arm: str
    dialect: str
    seed: int
    hop: int
    kind: FactKind
    asked: int
    kept: int
    beside: int
    stale: int
    outdated: int
    credit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large an arm's window was after a hop, and the history behind it."""

    arm: str
    dialect: str
    seed: int
    hop: int
    window_tokens: int
    history_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """Of the facts of one kind, how many the question alone brought back at the end: quoted, or at least their record."""

    dialect: str
    seed: int
    hop: int
    kind: FactKind
    asked: int
    quoted: int
    record: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A fact that could not be had after the last hop: not told by a window of the library's, or not found by its question."""

    arm: str
    dialect: str
    seed: int
    kind: FactKind
    question: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """How long an arm needed for one window. Not scored, and never the same twice."""

    arm: str
    dialect: str
    seed: int
    hop: int
    ms: float


@dataclass(slots=True, kw_only=True)
class Tally:
    """Everything one run put down."""

    cells: list[Cell] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    recalled: list[Recalled] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    unrecalled: list[Lost] = field(default_factory=list)
    refused: int = 0
    took: list[Took] = field(default_factory=list)

    def share(self, *, arm: str, hop: int, kinds: Collection[FactKind]) -> Share:
        """Return how much of these kinds an arm kept after a hop, all sessions together."""
        found = [cell for cell in self.cells if cell.arm == arm and cell.hop == hop and cell.kind in kinds]
        asked = sum(cell.asked for cell in found)
        return Share(
            asked=asked,
            kept=sum(cell.kept for cell in found),
            beside=sum(cell.beside for cell in found),
            stale=sum(cell.stale for cell in found),
            outdated=sum(cell.outdated for cell in found),
            credit=sum(cell.credit for cell in found) / asked if asked else 0.0,
            repeats=len({cell.dialect for cell in found}) or 1,
        )

    def seeds(self, *, arm: str, hop: int, kinds: Collection[FactKind]) -> list[float]:
        """Return the share an arm kept after a hop in the sessions of each seed, in rising order."""
        counts: dict[int, list[int]] = {}
        for cell in self.cells:
            if cell.arm == arm and cell.hop == hop and cell.kind in kinds:
                both = counts.setdefault(cell.seed, [0, 0])
                both[0] += cell.kept
                both[1] += cell.asked
        return sorted(kept / asked for kept, asked in counts.values())

    def tokens(self, *, arm: str, hop: int, of: Callable[[Size], int]) -> list[int]:
        """Return a size of an arm after a hop, one a session."""
        return [of(size) for size in self.sizes if size.arm == arm and size.hop == hop]

    def ms(self, *, arm: str) -> list[float]:
        """Return how long an arm took for each window, in rising order."""
        return sorted(took.ms for took in self.took if took.arm == arm)

    def recall(self, kinds: Collection[FactKind]) -> Share:
        """Return how many of these kinds the question alone brought back, quoted."""
        found = [each for each in self.recalled if each.kind in kinds]
        asked, quoted = sum(each.asked for each in found), sum(each.quoted for each in found)
        repeats = len({each.dialect for each in found}) or 1
        return Share(asked=asked, kept=quoted, stale=0, credit=quoted / asked if asked else 0.0, repeats=repeats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many, with the interval that a share of this size has by chance.

    `repeats` is in how many dialects each fact was asked: the same fact three times is no more evidence than once. `beside` are
    those that are told together with a wrong value; they are not kept. `outdated` are the stale ones whose newer value is gone.
    """

    asked: int
    kept: int
    stale: int
    credit: float
    beside: int = 0
    outdated: int = 0
    repeats: int = 1

    @property
    def kept_share(self) -> float:
        return self.kept / self.asked if self.asked else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        return compute_wilson(self.kept / self.repeats, self.asked / self.repeats)


def compute_wilson(kept: float, asked: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; the whole range where nothing was asked.

    It takes facts for independent. Those of one session are not quite, so the spread between seeds is worth a look too.
    """
    if asked == 0:
        return 0.0, 1.0
    share = kept / asked
    middle = share + _Z * _Z / (2 * asked)
    half = _Z * sqrt(share * (1 - share) / asked + _Z * _Z / (4 * asked * asked))
    spread = 1 + _Z * _Z / asked
    return max(0.0, (middle - half) / spread), min(1.0, (middle + half) / spread)


def list_hops(cells: Iterable[Cell]) -> Sequence[int]:
    """Return the hops that were scored, in order."""
    return sorted({cell.hop for cell in cells})
