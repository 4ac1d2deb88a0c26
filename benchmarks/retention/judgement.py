"""Judging a window without a reader: which option's exact value stands in a place that counts.

A user's words count where they are told to hold: in the state's Objective and Active Memory, in a summary, in a kept message.
What a tool said, and the work under way, counts wherever the window shows it, Inactive Changes apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.retention.blindness import stands
from benchmarks.retention.facts import USER_KINDS
from benchmarks.retention.probes import CHANCE, Probe
from benchmarks.retention.windows import Book


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a window makes of a probe.

    Attributes:
        kept: The right value, and no other option, is what the window tells.
        beside: The right value is told, and a wrong one as well.
        stale: The value that was taken back stands where it counts, without the newer one beside or after it.
        outdated: It does, and the newer one stands nowhere that counts.
        credit: What someone would score on average who picks, of the options, one that the window tells, and guesses if it
            tells none.
    """

    kept: bool
    beside: bool
    stale: bool
    outdated: bool
    credit: float


def judge(probe: Probe, book: Book) -> Judged:
    """Return what a window makes of a probe, by its text alone."""
    text = book.said if probe.fact.kind in USER_KINDS else book.shown
    told = {option for option in probe.options if stands(option, text)}
    stale = probe.fact.stale
    alone = outdated = False
    if stale is not None and stale in told:
        alone = stale_alone(stale, newer=probe.fact.value, book=book)
        outdated = probe.fact.value not in told
        told.discard(probe.fact.value if alone else stale)
    if not told:
        return Judged(kept=False, beside=False, stale=alone, outdated=outdated, credit=CHANCE)
    right, only = probe.fact.value in told, len(told) == 1
    return Judged(
        kept=right and only,
        beside=right and not only,
        stale=alone,
        outdated=outdated,
        credit=1 / len(told) if right else 0.0,
    )


def stale_alone(stale: str, *, newer: str, book: Book) -> bool:
    """Whether a reader would take the stale value for the one that holds.

    What comes later in reading order decides; lines of one summary come at the same time. So a text that names the stale value
    must name the newer one too, or a text after it must.
    """
    bare = [told.at for told in book.told if stands(stale, told.text) and not stands(newer, told.text)]
    corrected = max((told.at for told in book.told if stands(newer, told.text)), default=-1)
    return any(at >= corrected for at in bare)
