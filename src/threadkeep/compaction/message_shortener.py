"""Shortens people's messages for a state: whole messages, with pasted blocks cut.

Words are judged elsewhere, in `message_judgement`. A block counts as pasted by its shape alone: a fence, or several lines in a
row that are set in or mostly signs and figures. Its first line stays, and the pointer beside the message leads to the rest.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby

from threadkeep.tokens import estimate_text

# A run of so many lines of output, code or a log is a paste, or of so many characters; less belongs to what is said.
PASTED_LINES = 4
PASTED_CHARS = 600
# So much of a message is told whole: people write long lists of rules. What is longer still is mostly material.
MESSAGE_TOKENS = 2_000
SHORTEST_MACHINE_LINE = 12
MACHINE_SHARE = 0.14
FIRST_LINE_CHARS = 120

FENCES = ("```", "~~~")
# Every cut within a message begins like this.
CUT_MARK = "[… "

_bullet = re.compile(r"^\s*(?:[-*•‣·]|\d{1,3}[.)]|[a-zA-Z][.)])\s+")
_signs = frozenset('0123456789{}[]<>=|\\/;$#@_*+~^"`')
_trace = re.compile(r"^\s*(?:at \S+|File \"|Traceback |\d{4}-\d\d-\d\d[ T]\d\d:|\[?(?:INFO|WARN|ERROR|DEBUG)\b|[+-]{3} \S|@@ -)")
_cut = re.compile(r" \[… (\d{1,3}(?:,\d{3}){0,3}) characters …\] ")


def shorten(said: str) -> str:
    """Return a message with its pasted blocks cut to their first line; what is still very long loses its middle."""
    lines: list[str] = []
    for is_fenced, block in split_fences(said):
        for is_pasted, run in [(True, block)] if is_fenced else _split_runs(block):
            lines.extend([_shorten_paste(run)] if is_pasted else run)
    return cut_middle("\n".join(lines).strip() or said.strip(), tokens=MESSAGE_TOKENS)


def tell_briefly(said: str, chars: int) -> str:
    """Return a message in at most about `chars` characters."""
    return said if len(said) <= chars else f"{said[:chars].rstrip()}…"


def split_fences(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield the lines of a text in runs, and whether a run stood between fences; a fence that nothing closes opens nothing."""
    lines = text.splitlines()
    closing = {mark: [at for at, line in enumerate(lines) if line.strip() == mark] for mark in FENCES if mark in text}
    outside: list[str] = []
    at = 0
    while at < len(lines):
        ends = closing.get(lines[at].lstrip()[:3], [])
        after = bisect_right(ends, at)
        if after == len(ends) or "`" in lines[at].lstrip()[3:]:
            outside.append(lines[at])
            at += 1
            continue
        if outside:
            yield False, outside
            outside = []
        yield True, lines[at + 1 : ends[after]]
        at = ends[after] + 1
    if outside:
        yield False, outside


def cut_middle(text: str, *, tokens: int) -> str:
    """Return text of about `tokens`: its first two thirds and its last third of them, and how much stood between."""
    over = estimate_text(text) - tokens
    if over <= 0:
        return text
    keep = max(24, len(text) * tokens // (tokens + over))
    head, tail = text[: keep * 2 // 3].rstrip(), text[-(keep // 3) :].lstrip()
    gone = len(text) - len(head) - len(tail)
    # What an earlier cut left out is gone, too; the words that say so are nobody's.
    gone += sum(int(cut[1].replace(",", "")) - len(cut[0]) for cut in _cut.finditer(text, len(head), len(text) - len(tail)))
    return f"{head} {CUT_MARK}{gone:,} characters …] {tail}"


def _shorten_paste(block: Sequence[str]) -> str:
    """Return a pasted block if it is short, else its first line and how much follows."""
    lines = [line for line in block if line.strip()]
    if not _is_long(lines):
        return "\n".join(lines)
    first = lines[0].strip()[:FIRST_LINE_CHARS]
    if len(lines) == 1:
        return f"{first} {CUT_MARK}{len(lines[0].strip()) - len(first):,} more pasted characters]"
    return f"{first} {CUT_MARK}{len(lines) - 1} more pasted lines]"


def _split_runs(block: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield lines in runs; whether a run was pasted."""
    for is_machine, run in groupby(block, key=_is_machine_line):
        lines = list(run)
        yield is_machine and _is_long(lines), lines


def _is_long(lines: Sequence[str]) -> bool:
    return sum(1 for line in lines if line.strip()) >= PASTED_LINES or sum(map(len, lines)) >= PASTED_CHARS


def _is_machine_line(line: str) -> bool:
    """Whether a line reads like output, code or a log, by its shape."""
    bare = line.strip()
    if not bare or _bullet.match(bare):
        return False
    if line.startswith(("    ", "\t")) or _trace.match(line):
        return True
    return len(bare) >= SHORTEST_MACHINE_LINE and sum(char in _signs for char in bare) >= MACHINE_SHARE * len(bare)
