"""Tables of what `ask.py` and `likelihood.py` found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.readers.corpus import half_of
from benchmarks.readers.cuts import NOTHING
from benchmarks.readers.questions import CORRECTION, USER
from benchmarks.readers.windows import OURS

# Two-sided 95 % of a normal distribution.
Z = 1.959964
ALL = "all"


def wilson(right: int, asked: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; the whole range where nothing was asked."""
    if asked == 0:
        return 0.0, 1.0
    share = right / asked
    middle = share + Z * Z / (2 * asked)
    half = Z * sqrt(share * (1 - share) / asked + Z * Z / (4 * asked * asked))
    spread = 1 + Z * Z / asked
    return max(0.0, (middle - half) / spread), min(1.0, (middle + half) / spread)


def print_tables(paths: Iterable[Path]) -> str:
    """Return one table a file: answers for a result of `ask.py`, likelihoods for a result of `likelihood.py`."""
    return "\n\n".join(f"{path}\n{_table(json.loads(path.read_text(encoding='utf-8')))}" for path in paths)


def answer_table(result: Mapping[str, Any]) -> str:
    """Return a table with a row an arm: tokens, then per kind the share of right answers, its interval and the stale ones.

    `user-stated` counts corrections too, as they are things that people stated.
    """
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    kinds: dict[str, None] = {}
    for arm, kind, asked, right, stale, _ in result["res"]:
        both = [kind.replace(CORRECTION, USER, 1)] if kind.startswith(CORRECTION) else []
        near = [] if "near options" in kind else [ALL]
        for told in (kind, *both, *near):
            kinds[told] = None
            for at, number in enumerate((asked, right, stale)):
                counts[arm, told][at] += number
    rows = [["arm", "tokens", *kinds]]
    for arm, lengths in result["lens"].items():
        cells = [_share(*counts[arm, kind]) for kind in kinds]
        rows.append([arm, f"{fmean(lengths):,.0f}", *cells])
    return format_table(rows)


def _share(asked: int, right: int, stale: int) -> str:
    if asked == 0:
        return "-"
    low, high = wilson(right, asked)
    told = f"{right / asked:.0%} ({low:.0%}-{high:.0%}) of {asked}"
    return f"{told}, {stale} stale" if stale else told


def likelihood_table(result: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a row an arm, for all cuts and for each half: mean nats a token, and `ours` beside the arm."""
    halves = {"all": result, **{half: [cut for cut in result if _half(cut) == half] for half in ("build", "held")}}
    rows = [["cuts", "arm", "tokens", "nats", "ours lower at", "ours - arm, mean", "95 %"]]
    for half, cuts in halves.items():
        for arm in cuts[0]["arms"] if cuts else ():
            both = [(_nats(cut, OURS), _nats(cut, arm)) for cut in cuts if arm in cut["arms"] and OURS in cut["arms"]]
            apart = [ours - other for ours, other in both]
            beside = ["", "", ""]
            if arm != OURS and apart:
                spread = Z * sqrt(sum((each - fmean(apart)) ** 2 for each in apart) / max(len(apart) - 1, 1) / len(apart))
                lower = sum(each < 0 for each in apart)
                beside = [f"{lower} of {len(apart)} ({lower / len(apart):.0%})", f"{fmean(apart):+.3f}", f"± {spread:.3f}"]
            tokens = fmean(cut["arms"][arm][2] for cut in cuts)
            rows.append([f"{half} ({len(cuts)})", arm, f"{tokens:,.0f}", f"{fmean(other for _, other in both):.3f}", *beside])
    return format_table(rows)


def _nats(cut: Mapping[str, Any], arm: str) -> float:
    summed, tokens = cut["arms"][arm][:2]
    return float(summed) / max(int(tokens), 1)


def _half(cut: Mapping[str, Any]) -> str:
    return half_of(cut["thread"], cut["cut"])


def _table(result: Any) -> str:
    if isinstance(result, Mapping):
        return answer_table(result)
    if result and NOTHING not in result[0]["arms"]:
        return f"(no arm {NOTHING!r})\n{likelihood_table(result)}"
    return likelihood_table(result)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table; the first row is the heading."""
    heading, *rest = rows
    lines = [heading, ["---"] * len(heading), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
