"""A text under change, and the list of replacements that made it; replayed backwards they give the original."""

from __future__ import annotations

from dataclasses import dataclass, field

Splice = tuple[int, str, str]
"""Where, which text was removed, and which text was inserted."""


@dataclass(slots=True)
class Draft:
    """A text that edits change in place. New text gets the line ends of the old one."""

    text: str
    splices: list[Splice] = field(default_factory=list)

    def replace(self, start: int, stop: int, new: str) -> None:
        """Put `new` in place of the text from `start` to `stop`."""
        if "\r\n" in self.text:
            new = new.replace("\r\n", "\n").replace("\n", "\r\n")
        old = self.text[start:stop]
        if old != new:
            self.splices.append((start, old, new))
            self.text = self.text[:start] + new + self.text[stop:]


def unwind(text: str, splices: list[Splice]) -> str:
    """Return the text as it was before `splices`, which made it what it is."""
    for start, old, new in reversed(splices):
        text = text[:start] + old + text[start + len(new) :]
    return text
