"""Taking a person's message apart into statements that can each be kept, corrected or withdrawn.

Language plays no part in what counts as a statement: every sentence of a person's message is one. Only pasted material (code
fences, logs, listings) is not spoken; it is named by its size and stays recoverable through the pointer beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

# A statement longer than this is taken apart at its commas; what has none is shortened in the middle.
LONGEST_STATEMENT_CHARS = 600
# So many parts at most: what is longer was not said but pasted, and its pointer leads to the whole.
LONGEST_STATEMENT_PARTS = 24
# Of one pasted text so many of its rules are kept.
RULES_OF_A_PASTE = 24
# This many lines in a row that read like a machine's were pasted.
PASTE_LINES = 4
# A line at least this long that does not end a sentence was probably broken by the window it was typed in.
WRAPPED_CHARS = 50
# Below this length a few figures make no machine's line.
SHORTEST_MACHINE_LINE = 25
PROSE_WORDS = 4
MACHINE_SHARE = 0.22
# A message longer than this is taken apart each time: what is remembered must not grow with what people paste.
REMEMBERED_CHARS = 8_000

_closed = re.compile(r"[.!?:;…。！？；।][\"'”’)\]]*$")
_fence = re.compile(r"^[ \t]*(```|~~~)(?P<kind>[^`\n]*)\n(?P<body>.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_PROSE_FENCES = frozenset(("", "text", "txt", "plain", "plaintext", "md", "markdown", "quote", "email", "mail"))
_lone_fence = re.compile(r"^[ \t]*(?:```|~~~)[^`\n]*$", re.MULTILINE)
_bullet = re.compile(r"^\s*(?:[-*•‣·]|\d{1,3}[.)]|[a-zA-Z][.)])\s+")
_sentence_end = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|(?<=[。！？；])")
# A full stop after one of these, or after a single letter, ends no sentence.
_abbreviation = re.compile(
    r"(?:^|[\s(])(?:\w|e\.g|i\.e|etc|vs|cf|approx|no|nr|fig|al|resp|incl|z\.\s?B|d\.\s?h|bzw|usw|ca|evtl|p\.\s?ej|Mr|Mrs|Ms|Dr|St)\.$",
    re.IGNORECASE,
)
_word = re.compile(r"[^\W_]+", re.UNICODE)
_cjk = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_figures = frozenset('0123456789{}[]<>=|\\/;$#@_*+~^"`')


_clause_end = re.compile(r"(?<=[,;:，、；：،])\s*|\s+(?=[–—-]\s)")
_prose = re.compile(r"[^\W\d_]{2,}(?:[’'-][^\W\d_]+)?|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_not_prose = re.compile(r"[{}<>=|$\\]|\w\(|^\s*(?://|#|--|/?\*|\d{4}-\d\d-\d\d|\[\w+\])")
# What a demand reads like, in a text that somebody pasted: everything a person says is kept, of a pasted text its rules.
_rule = re.compile(
    r"\b(?:must|never|always|only|shall|should|may not|do not|cannot|required?|forbidden|prohibited|mandatory|no later than|"
    r"at least|at most|unless|müssen|muss|darf|dürfen|nie|niemals|immer|nur|verboten|pflicht|mindestens|höchstens|nicht|"
    r"soll(?:en)?|kein\w*|debe\w*|nunca|siempre|solo|sólo|prohibid\w+|obligatori\w+|como máximo|no se|hay que|"
    r"doit|doivent|jamais|toujours|interdit\w*|obligatoire\w*|"
    r"нельзя|никогда|всегда|только|должн\w+|запрещ\w+|обязательн\w*|не более|не менее|необходимо)\b|n['’]t\b"
    r"|必须|不得|禁止|不要|不能|不可|务必|只能|应当|应该|一律|切勿|至少|最多"
    r"|必ず|禁止|してはいけ|しないで|ください|べき|のみ|以内|以上|厳禁|なければ"
    r"|يجب|ممنوع|لا |دائما|أبدا|فقط|يمنع|لا يجوز",
    re.IGNORECASE,
)


def statements(text: str) -> list[str]:
    """Return the statements of a person's message, in order, in their own words."""
    return list(_remembered(text) if len(text) <= REMEMBERED_CHARS else _taken_apart(text))


def _taken_apart(text: str) -> list[str]:
    spoken = _lone_fence.sub("", _fence.sub(_name_the_fenced, text)) if _has_fence(text) else text
    return [part for line in _spoken_lines(spoken) for sentence in _sentences(line) for part in _parts(sentence)]


# Draft, merge and audit each take the same messages apart.
_remembered = lru_cache(maxsize=4_096)(_taken_apart)


def is_paste(statement: str) -> bool:
    """Whether a statement only stands for something pasted."""
    return statement.startswith("[") and " pasted lines, " in statement


def pastes(text: str) -> list[str]:
    """Return what a person pasted into a message, each piece with its lines as they stand: what statements only name."""
    fenced: list[str] = []
    if _has_fence(text):
        fenced = [match["body"].strip("\n") for match in _fence.finditer(text)]
        text = _lone_fence.sub("", _fence.sub("\n\n", text))
    runs = ([line.rstrip() for line in run] for machine, run in _runs(text) if machine)
    return [piece for piece in (*fenced, *("\n".join(run) for run in runs if len(run) >= PASTE_LINES)) if piece.strip()]


def shortened(statement: str) -> str:
    """Return the statement, its middle cut out if it is very long."""
    return statement if len(statement) <= LONGEST_STATEMENT_CHARS else middle_cut(statement, chars=LONGEST_STATEMENT_CHARS)


def is_cut(text: str) -> bool:
    """Whether the middle of a text was cut out."""
    return " characters…] " in text


def middle_cut(text: str, *, chars: int) -> str:
    """Return the first and the last of a text's characters, `chars` in all, and how many stood between them."""
    half = chars // 2
    return f"{text[:half]} […{len(text) - 2 * half} characters…] {text[-half:]}"


def _has_fence(text: str) -> bool:
    """Whether a text may hold a fence; most messages hold none, and at every line one would be looked for."""
    return "```" in text or "~~~" in text


def _name_the_fenced(match: re.Match[str]) -> str:
    """Return a paragraph that names what a fence holds, apart from what surrounds it."""
    lines = [line.strip() for line in match["body"].splitlines() if line.strip()]
    rules = _rules(lines) if match["kind"].strip().casefold() in _PROSE_FENCES else []
    return "\n\n".join(("", _paste(lines), *rules, ""))


def _paste(lines: Sequence[str]) -> str:
    """Return what stands for pasted lines: their number and size, none of their words."""
    return f"[{len(lines)} pasted lines, {sum(map(len, lines)):,} characters]" if lines else ""


def _rules(lines: list[str]) -> list[str]:
    """Return the sentences of a pasted text that read like rules; none where most of it is no prose but code or a log."""
    if 2 * sum(map(_is_prose, lines)) < len(lines):
        return []
    sentences = (sentence for line in _unwrapped(lines) if _is_prose(line) for sentence in _sentences(line))
    return [sentence for sentence in sentences if _rule.search(sentence)][:RULES_OF_A_PASTE]


def _is_prose(line: str) -> bool:
    """Whether a line reads as if someone wrote it to be read: several words, no signs of code, no time of a log."""
    return _not_prose.search(line) is None and len(_prose.findall(line)) >= PROSE_WORDS


def _parts(sentence: str) -> list[str]:
    """Return a sentence, or, where it is very long, its clauses put together to parts of a bearable length."""
    if len(sentence) <= LONGEST_STATEMENT_CHARS:
        return [sentence]
    parts: list[str] = []
    for clause in _clause_end.split(sentence):
        if parts and len(parts[-1]) + 1 + len(clause) <= LONGEST_STATEMENT_CHARS:
            parts[-1] = f"{parts[-1]} {clause}".strip()
        else:
            parts.append(clause.strip())
    if len(parts) > LONGEST_STATEMENT_PARTS or _is_machines(sentence):
        return [shortened(sentence)]
    return [shortened(part) for part in parts if part]


def _spoken_lines(text: str) -> Iterator[str]:
    """Yield what was said, paragraph by paragraph, and one line for each run of lines that a machine wrote."""
    for machine, run in _runs(text):
        stripped = [line.strip() for line in run]
        if machine and len(stripped) >= PASTE_LINES:
            yield _paste(stripped)
            yield from _rules(stripped)
        else:
            yield from _unwrapped(stripped)


def _runs(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield the lines of a text that are not blank, in runs of a machine's and of a person's; a paragraph ends a run."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip()]
        for machine, run in groupby(lines, key=_is_machines):
            yield machine, list(run)


def _is_machines(line: str) -> bool:
    """Whether a line reads like output: long, and a good part of it figures and signs; or set in like code."""
    bare = line.strip()
    if _bullet.match(bare):
        return False
    if line.startswith(("    ", "\t")):
        return True
    if len(bare) < SHORTEST_MACHINE_LINE:
        return False
    return sum(1 for char in bare if char in _figures) >= MACHINE_SHARE * len(bare)


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Yield lines as they were meant: one that a narrow window broke goes on where the one before it ends."""
    held = ""
    for line in lines:
        goes_on = len(held) >= WRAPPED_CHARS and not _bullet.match(line) and not line[0].isupper()
        if goes_on and not _closed.search(held):
            held = f"{held} {line}"
            continue
        if held:
            yield held
        held = _bullet.sub("", line)
    if held:
        yield held


def _sentences(line: str) -> Iterator[str]:
    """Yield the sentences of a line; a fragment of a word or two stays with the sentence before it."""
    held = ""
    for piece in _sentence_end.split(line):
        piece = piece.strip()
        if not piece:
            continue
        short = len(_word.findall(piece)) < 3 and not _cjk.search(piece)
        if held and (short or _abbreviation.search(held)):
            held = f"{held} {piece}"
            continue
        if held:
            yield held
        held = piece
    if held:
        yield held
