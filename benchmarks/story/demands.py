"""Chooses the demands of a session, their values and turns, and keeps the values out of all other text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count, zip_longest
from random import Random

from benchmarks.story.lines import DemandLine, load_demands
from benchmarks.story.session import Demand, DemandKind
from benchmarks.story.words import SHOPS

EARLY_SHARE = 0.15
LATER_SHARES = (0.25, 0.6)
FEWEST_DEMANDS = len(DemandKind)
MOST_DEMANDS = len(load_demands())

_TAKES_BACK = frozenset({DemandKind.CORRECTION, DemandKind.WITHDRAWAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A sentence the user says in some turn. One that is `last` ends its message, as an afterthought does."""

    turn: int
    text: str
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a session demands and every sentence that takes, those that are taken back later among them."""

    demands: tuple[Demand, ...]
    remarks: tuple[Remark, ...]

    def reserved(self) -> tuple[str, ...]:
        """Return every text that must occur nowhere but in its own remark."""
        stale = (demand.stale for demand in self.demands if demand.stale is not None)
        return (*(demand.needle for demand in self.demands), *stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    kind: DemandKind
    said: str
    needle: str
    earlier: str | None
    stale: str | None


def plan_demands(rng: Random, *, turns: int, wanted: int) -> Demands:
    """Choose `wanted` demands of all kinds, draw their values and place them.

    All are said in the first 15 % of the turns, apart from corrections and withdrawals: what those take back is said
    there, they themselves come between 25 % and 60 %.
    """
    early = max(1, int(turns * EARLY_SHARE))
    later = range(max(early, int(turns * LATER_SHARES[0])), int(turns * LATER_SHARES[1]))
    demands: list[Demand] = []
    remarks: list[Remark] = []
    for drawn in _draw_apart(rng, _choose_lines(rng, wanted)):
        late = drawn.kind is DemandKind.LATE
        first_said = rng.randrange(early // 2 if late else 0, early)
        turn = rng.choice(later) if drawn.kind in _TAKES_BACK else first_said
        if drawn.earlier is not None:
            remarks.append(Remark(turn=first_said, text=drawn.earlier))
        remarks.append(Remark(turn=turn, text=drawn.said, last=late))
        demands.append(Demand(kind=drawn.kind, said=drawn.said, needle=drawn.needle, turn=turn, stale=drawn.stale))
    rng.shuffle(remarks)
    return Demands(
        demands=tuple(sorted(demands, key=lambda demand: demand.turn)),
        remarks=tuple(sorted(remarks, key=lambda remark: (remark.turn, remark.last))),
    )


def keep_apart(text: str, reserved: Sequence[str]) -> str:
    """Return `text` with every reserved value that chance put there turned into another of the same shape.

    Reserved texts without a digit are whole phrases of the user; no generated text has them.
    """
    numeric = [value for value in reserved if any(letter.isdigit() for letter in value)]
    for shift in count(1):
        found = [value for value in numeric if value in text]
        if not found:
            return text
        for value in found:
            text = text.replace(value, _look_alike(value, shift=1 + shift % 8))
    raise AssertionError("count() has no end")


def _look_alike(value: str, *, shift: int) -> str:
    # A leading zero would turn a JSON number into a syntax error.
    turned = [str((int(letter) + shift) % 10) if letter.isdigit() else letter for letter in value]
    if value[0].isdigit():
        turned[0] = str((int(value[0]) - 1 + shift) % 9 + 1)
    return "".join(turned)


def _choose_lines(rng: Random, wanted: int) -> list[DemandLine]:
    """Take lines of each kind in turn, so that every kind is there however few are wanted."""
    decks = []
    for kind in DemandKind:
        deck = [line for line in load_demands() if line.kind is kind]
        decks.append(rng.sample(deck, len(deck)))
    rounds = chain.from_iterable(zip_longest(*decks))
    return [line for line in rounds if line is not None][:wanted]


def _draw_apart(rng: Random, lines: Sequence[DemandLine]) -> list[_Drawn]:
    taken: list[_Drawn] = []
    for line in lines:
        drawn = _draw(rng, line)
        while not _is_apart(drawn, taken):
            drawn = _draw(rng, line)
        taken.append(drawn)
    return taken


def _draw(rng: Random, line: DemandLine) -> _Drawn:
    value = line.value.draw(rng)
    shop = rng.choice(SHOPS).capitalize()
    if line.earlier is None:
        return _Drawn(kind=line.kind, said=line.said.format(v=value, s=shop), needle=value, earlier=None, stale=None)
    old = (line.old or line.value).draw(rng)
    return _Drawn(
        kind=line.kind,
        said=line.said.format(v=value, old=old, s=shop),
        needle=value,
        earlier=line.earlier.format(old=old, s=shop),
        stale=old,
    )


def _is_apart(drawn: _Drawn, taken: Sequence[_Drawn]) -> bool:
    """Whether each needle and stale value, the new ones included, occurs in its own sentences alone."""
    if drawn.said.count(drawn.needle) != 1 or drawn.needle in (drawn.earlier or ""):
        return False
    return not any(_is_in_sentences(drawn, other) or _is_in_sentences(other, drawn) for other in taken)


def _is_in_sentences(one: _Drawn, other: _Drawn) -> bool:
    sentences = f"{other.said}\n{other.earlier or ''}"
    return one.needle in sentences or (one.stale is not None and one.stale in sentences)
