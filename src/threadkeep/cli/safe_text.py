"""Text made safe to print.

A tool's output may hold escape sequences that move the cursor, retitle the terminal or write to the clipboard, and characters
that reorder a line so that it reads as something else. `clean` removes them and keeps the text around them.
"""

from __future__ import annotations

import re

# In order: a string sequence (OSC, DCS, APC, PM, SOS) up to its terminator or the line's end, a control sequence, any other
# escape. Each has a form that begins with one C1 character, which terminals obey too.
_escapes = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
# Other control characters, and the marks that change a line's direction or hide where it ends.
_invisible = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_unsafe_in_json = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)


def clean(text: str) -> str:
    """Return `text` without anything a terminal would obey; line ends and tabs stay."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _invisible.sub("", _escapes.sub("", text)).encode("utf-8", "replace").decode("utf-8")


def clean_line(text: str, *, limit: int | None = None) -> str:
    """Return `text`, cleaned, on one line, and cut to `limit` characters if it is longer."""
    # Cut before cleaning: one line of a table needs little of a megabyte of output.
    line = " ".join(clean(text if limit is None else text[: limit * 4]).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def escape_json(raw: bytes) -> bytes:
    """Return the same JSON with every character a terminal would obey written as an escape."""
    return _unsafe_in_json.sub(lambda match: b"\\u%04x" % ord(match[0].decode("utf-8")), raw)
