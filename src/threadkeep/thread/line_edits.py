"""Which lines of a text changed: hunks between lines that both versions have once, in the same order.

It costs about as much as sorting the lines, whatever they are: a text of many equal lines takes no longer than any other, as it
would where the longest common part is looked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """`gone` lines from line `first` of the old text (counted from 0) on are now `lines`."""

    first: int
    gone: int
    lines: list[str]


def hunks_between(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return what makes `new` of `old`, first to last, no two of them touching."""
    found: list[Hunk] = []
    old_at = new_at = 0
    for old_stop, new_stop in (*_anchors(old, new), (len(old), len(new))):
        found.extend(_in_gap(old, new, range(old_at, old_stop), range(new_at, new_stop)))
        old_at, new_at = old_stop + 1, new_stop + 1
    return found


def with_hunks(old: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """Return the lines after `hunks`, each of which speaks of the lines as they were before all of them."""
    lines = list(old)
    for hunk in reversed(hunks):
        lines[hunk.first : hunk.first + hunk.gone] = hunk.lines
    return lines


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of lines that stand once in each text, as many as have the same order in both."""
    in_old, in_new = Counter(old), Counter(new)
    place = {line: at for at, line in enumerate(new) if in_new[line] == 1}
    pairs = [(at, place[line]) for at, line in enumerate(old) if in_old[line] == 1 and line in place]
    # The longest run of growing places: `tails[n]` ends the best run of n + 1 pairs found so far.
    tails: list[int] = []
    last_of: list[int] = []
    before: list[int] = []
    for index, (_, at) in enumerate(pairs):
        length = bisect_left(tails, at)
        before.append(last_of[length - 1] if length else -1)
        tails[length : length + 1] = [at]
        last_of[length : length + 1] = [index]
    chosen: list[tuple[int, int]] = []
    index = last_of[-1] if last_of else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]


def _in_gap(old: Sequence[str], new: Sequence[str], olds: range, news: range) -> Iterator[Hunk]:
    """Yield the hunks between two anchors: line by line where as many stand there as before, else one for all that differ."""
    shorter = min(len(olds), len(news))
    head = next((at for at in range(shorter) if old[olds[at]] != new[news[at]]), shorter)
    tail = next((at for at in range(shorter - head) if old[olds[-1 - at]] != new[news[-1 - at]]), shorter - head)
    olds, news = olds[head : len(olds) - tail], news[head : len(news) - tail]
    if len(olds) != len(news):
        yield Hunk(first=olds.start, gone=len(olds), lines=[new[at] for at in news])
        return
    start = 0
    for at in range(len(olds) + 1):
        if at == len(olds) or old[olds[at]] == new[news[at]]:
            if start < at:
                yield Hunk(first=olds[start], gone=at - start, lines=[new[news[each]] for each in range(start, at)])
            start = at + 1
