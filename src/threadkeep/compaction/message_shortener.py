"""Shortens people's messages for a state: whole messages, with pasted blocks cut.

Nothing here reads the language of a message. A block counts as pasted by its shape alone: a fence, or several lines in a row that
are set in or mostly signs and figures. Its first line stays, and the pointer beside the message leads to the rest.
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

# A message of nothing but these neither asks for anything nor settles anything. Any other word makes it a message.
ACKNOWLEDGEMENTS = frozenset(
    "ok okay k yes yep yeah y sure fine good great nice perfect thanks thx ty cool wow yo hi hey hello please done continue "
    "proceed go next ja weiter danke gut genau oui merci bien continuez si sí vale gracias sigue да ок спасибо дальше продолжай "
    "好 好的 是 是的 继续 谢谢 可以 はい 続けて ありがとう 네 계속 감사합니다".split()
)
# Their words say something else when they stand alone.
ACKNOWLEDGING_PHRASES = ("go on", "go ahead", "thank you", "keep going", "carry on", "sounds good", "looks good", "mach weiter")
_gap = r"[\W_]"
_told = "|".join((*(phrase.replace(" ", f"{_gap}+") for phrase in ACKNOWLEDGING_PHRASES), *map(re.escape, ACKNOWLEDGEMENTS)))
_acknowledges = re.compile(rf"{_gap}*(?:(?:{_told})(?:{_gap}+|\Z))*")

# Words that may oblige beyond the turn they were said in. A message with none is remembered in its own thread alone.
_obliges = re.compile(
    r"\b(?:never|always|may|must|mustn['’]?t|shall|should|shouldn['’]?t|only|don['’]?t|do not|cannot|can['’]?t|not|without|until|"
    r"unless|instead|from now on|prefer\w*|wants?|needs?|require[ds]?|rules?|avoid|ensure|make sure|remember|keep|use|allowed|"
    r"forbidden|decided|agreed|called|named|nie|niemals|immer|muss|müssen|darf|dürfen|nur|keine?|nicht|jamais|toujours|doit|doivent|"
    r"seulement|nunca|siempre|debe|deben|sólo|solo|não|sempre|deve|apenas)\b"
)
_cut = re.compile(r" \[… (\d{1,3}(?:,\d{3}){0,3}) characters …\] ")
_sentence = re.compile(r"[^.!?\n]+(?:[.!](?=\S)[^.!?\n]*)*[.!?]?")
_latin = re.compile(r"[A-Za-z]{2}")


def may_bind(said: str) -> bool:
    """Whether a message may bind later work: a sentence of it is no question and names an exact value or obliges.

    What is not written in Latin letters may always bind: nothing here can tell.
    """
    if not _latin.search(said):
        return True
    sentences = (sentence for sentence in _sentence.findall(said) if not sentence.rstrip().endswith("?"))
    return any(obliges(sentence) or find_values(sentence) for sentence in sentences)


def obliges(said: str) -> bool:
    """Whether a message holds a word that may oblige beyond the turn it was said in."""
    # Four times as fast as a pattern that ignores case.
    return _obliges.search(said.casefold()) is not None


def is_acknowledgement(said: str) -> bool:
    """Whether a message only greets, acknowledges or asks to go on."""
    return _acknowledges.fullmatch(said.casefold()) is not None


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


_token = re.compile(r"[\w./:@#$%+~^=-]*[\w%]", re.UNICODE)
_name = re.compile(r"[a-z]+[A-Z]\w*|\w+_\w+|[A-Z]{2,}\w*|\w+(?:[./:@-]\w+)+")
SHORTEST = 2


def find_values(text: str) -> frozenset[str]:
    """Return the exact values a text names: whatever holds a figure, or is written as code writes names."""
    found: set[str] = set()
    for token in _token.findall(text):
        bare = token.strip(".:-/#=~^+")
        if bare.isalpha() and bare[1:].islower():
            # A plain word: most are.
            continue
        if len(bare) >= SHORTEST and (any(char.isdigit() for char in bare) or _name.fullmatch(bare)):
            found.add(bare)
    return frozenset(found)
