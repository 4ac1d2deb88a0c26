"""Text of a transcript, made safe to read: the templates escape what is markup, this shows what would deceive the eye.

A tool's output may hold characters that reorder a line so that it reads as something else, and control characters that no
page can show. Colours for terminals are dropped, everything else is written out.
"""

from __future__ import annotations

import re

_colours = re.compile(r"\x1b\[[0-9;:]*m")
_unseen = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_spaces = re.compile(r"\s+")


def clean(text: str) -> str:
    """Return `text` with every character that cannot be seen, or that moves others, written out; line ends and tabs stay."""
    text = _colours.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _unseen.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, *, limit: int) -> str:
    """Return the beginning of `text` on one line of at most `limit` characters."""
    # Cut first: a line needs no more than a glance at a megabyte of output.
    line = _spaces.sub(" ", text[: limit * 4]).strip()
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
