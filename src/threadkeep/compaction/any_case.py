"""Phrases that are found whatever the case of their letters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property


class AnyCase:
    """A pattern, written in small letters, that finds them in any case.

    To match without regard to case takes about three times as long, as every alternative is then tried at every place. Plain
    text is looked at in small letters instead; of other letters the small form may be a longer one, and places would be lost.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._small = re.compile(pattern)

    @cached_property
    def _whatever_case(self) -> re.Pattern[str]:
        return re.compile(self._pattern, re.IGNORECASE)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Yield what is found, in order: its places are those of `text`, its letters may be small."""
        return self._small.finditer(text.lower()) if text.isascii() else self._whatever_case.finditer(text)

    def sub(self, by: str, text: str) -> str:
        """Return a text with `by` in the place of all that is found."""
        kept, end = [], 0
        for match in self.finditer(text):
            kept.append(text[end : match.start()])
            end = match.end()
        return by.join((*kept, text[end:]))
