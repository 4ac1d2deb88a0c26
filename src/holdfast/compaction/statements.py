"""Taking a person's message apart into statements that can each be kept, corrected or withdrawn.

Language plays no part in what counts as a statement: every sentence of a person's message is one. Only pasted material (code
fences, logs, listings) is not spoken; it is named by its size and stays recoverable through the pointer beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A statement longer than this is shortened in the middle; its pointer leads to the whole.
LONGEST_STATEMENT_CHARS = 600
# A block of lines this long that is neither prose nor a list was pasted.
PASTE_LINES = 8

# A line at least this long that does not end a sentence was probably broken by the window it was typed in.
WRAPPED_CHARS = 50

_closed = re.compile(r"[.!?:;…。！？；][\"'”’)\]]*$")
_fence = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_bullet = re.compile(r"^\s*(?:[-*•‣·]|\d{1,3}[.)]|[a-zA-Z][.)])\s+")
_sentence_end = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[¿¡]*[^\Wa-z_])|(?<=[。！？；])")
_word = re.compile(r"[^\W_]+", re.UNICODE)
_cjk = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def statements(text: str) -> list[str]:
    """Return the statements of a person's message, in order, in their own words."""
    spoken = _fence.sub(_name_the_paste, text)
    return [shortened(sentence) for line in _spoken_lines(spoken) for sentence in _sentences(line)]


def shortened(statement: str) -> str:
    """Return the statement, its middle cut out if it is very long."""
    if len(statement) <= LONGEST_STATEMENT_CHARS:
        return statement
    half = LONGEST_STATEMENT_CHARS // 2
    return f"{statement[:half]} […{len(statement) - 2 * half} characters…] {statement[-half:]}"


def _name_the_paste(match: re.Match[str]) -> str:
    return f"[{match[0].count(chr(10)) + 1} pasted lines]"


def _spoken_lines(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if len(lines) >= PASTE_LINES and not _is_list(lines) and sum(map(_is_prose, lines)) < len(lines) / 2:
            yield from (line for line in lines if _is_prose(line))
            yield f"[{len(lines)} pasted lines, beginning: {lines[0][:100]}]"
        else:
            yield from _unwrapped(lines)


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Yield lines as they were meant: one that a narrow window broke goes on where the one before it ends."""
    held = ""
    for line in lines:
        goes_on = held and not _bullet.match(line) and (len(held) >= WRAPPED_CHARS or line[0].islower())
        if goes_on and not _closed.search(held):
            held = f"{held} {line}"
            continue
        if held:
            yield held
        held = _bullet.sub("", line)
    if held:
        yield held


def _is_list(lines: list[str]) -> bool:
    return sum(1 for line in lines if _bullet.match(line)) >= len(lines) / 2


def _is_prose(line: str) -> bool:
    """Whether a line reads like something said: words in a row, closed like a sentence, hardly any machine punctuation."""
    if len(_cjk.findall(line)) >= 4:
        return True
    words = _word.findall(line)
    marks = sum(1 for char in line if char in "{}[]<>=|\\/;$#@_*+~^")
    return len(words) >= 4 and line[-1] in ".!?:…" and marks <= len(words) / 4 and line[0].isupper() and not line[:4].isdigit()


def _sentences(line: str) -> Iterator[str]:
    """Yield the sentences of a line; a fragment of a word or two stays with the sentence before it."""
    held = ""
    for piece in _sentence_end.split(line):
        piece = piece.strip()
        if not piece:
            continue
        if held and len(_word.findall(piece)) < 3 and not _cjk.search(piece):
            held = f"{held} {piece}"
            continue
        if held:
            yield held
        held = piece
    if held:
        yield held
