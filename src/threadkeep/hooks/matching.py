"""Which occasions a hook is for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from threadkeep.errors import BadInput

EVERYTHING = ("", "*")
WORDS = re.compile(r"[A-Za-z0-9_|]+")


@dataclass(frozen=True, slots=True)
class Matcher:
    """A pattern over triggers and sources.

    None, "" and "*" match all; letters, digits, `_` and `|` alone are exact alternatives; anything else is a regular expression
    that has to be found somewhere in the subject.

    Raises:
        BadInput: The pattern is no regular expression.
    """

    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.pattern is None or self.pattern in EVERYTHING:
            return
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadInput(f"{self.pattern!r} is no matcher: {error}; write manual|auto, *, or a regular expression") from None

    def matches(self, subject: str) -> bool:
        if self.pattern is None or self.pattern in EVERYTHING:
            return True
        if WORDS.fullmatch(self.pattern):
            return subject in self.pattern.split("|")
        return re.search(self.pattern, subject) is not None
