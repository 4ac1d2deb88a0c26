"""Text from transcripts, made safe to hand to a model: every line marked as a quotation, nothing hidden, nothing endless."""

from __future__ import annotations

import re
import unicodedata

# What one answer may hold: a tool's output is read whole by a model with a window of its own.
LONGEST_ANSWER = 24_000
LONGEST_LINE = 400

_line_end = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def quoted(text: str) -> str:
    """Return text with each of its lines behind `> `: no line of it can stand for anything but itself."""
    return "\n".join(f"> {_visible(line)}" for line in _line_end.split(text))


def one_line(text: str, *, limit: int = LONGEST_LINE) -> str:
    """Return text on one line, cut where it is long."""
    joined = " ".join(_visible(_line_end.sub(" ", text)).split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"


def _visible(text: str) -> str:
    """Return text without characters that hide or reorder others: controls, and the marks that turn writing around."""
    return "".join(" " if char == "\t" else char for char in text if char == "\t" or not _hides(char))


def _hides(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in "\u200c\u200d"
