"""What people said in the messages a compaction can see: statement by statement, with what stands around each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from threadkeep.compaction.changes import corrects, is_courtesy, withdraws
from threadkeep.compaction.statements import is_paste, statements
from threadkeep.compaction.ties import terms
from threadkeep.thread import Pointer

_STOPS = ".!…。！ "
_QUOTES = ",;:\"'“”‘’()"
# A change and the sentence after it are one passage up to this length.
LONGEST_PASSAGE = 260


class Heard:
    """The messages of people by where they were said; nothing was said where no person spoke."""

    def __init__(self, spoken: Mapping[Pointer, str]) -> None:
        self._spoken = spoken
        self._statements: dict[Pointer, dict[str, str]] = {}

    def statements_at(self, source: Pointer) -> dict[str, str]:
        """Return what a person said in a message, by its normalised words, in order."""
        if source not in self._statements:
            found = statements(self._spoken.get(source, ""))
            self._statements[source] = {normalised(statement): statement for statement in found}
        return self._statements[source]

    def said(self, text: str, *, source: Pointer) -> bool:
        """Whether a person said exactly this there."""
        return normalised(text) in self.statements_at(source)

    def comes_first(self, text: str, *, then: str, source: Pointer) -> bool:
        """Whether a message says one thing before another."""
        message = self._spoken.get(source, "")
        return 0 <= message.find(text) < message.find(then)

    def around(self, text: str, *, source: Pointer) -> tuple[str, ...]:
        """Return the statements right before and right after one."""
        told = list(self.statements_at(source).values())
        place = told.index(text) if text in told else -1
        return (*told[max(0, place - 1) : place], *told[place + 1 : place + 2]) if place >= 0 else ()

    def passage(self, text: str, *, source: Pointer) -> str:
        """Return a statement, with the next of its message where that one is part of it.

        It is where only the next one names a value ("Not that port. 9090 is right."), and where the first takes something
        back: what holds instead, or why, often follows ("The freeze is lifted. Ship when it is ready.").
        """
        told = list(self.statements_at(source).values())
        place = told.index(text) if text in told else -1
        following = told[place + 1] if 0 <= place < len(told) - 1 else ""
        if not following or is_paste(following):
            return text
        names_it = not terms(text).asserted and bool(terms(following).asserted)
        goes_on = withdraws(text) and not (withdraws(following) or corrects(following))
        explains = goes_on and not is_courtesy(following) and len(text) + len(following) < LONGEST_PASSAGE
        if not names_it and not explains:
            return text
        message = self._spoken.get(source, "")
        begin = message.find(text)
        end = message.find(following, begin + len(text)) if begin >= 0 else -1
        passage = message[begin : end + len(following)] if end >= 0 else ""
        return passage if passage and "\n\n" not in passage else text


@lru_cache(maxsize=16_384)
def normalised(text: str) -> str:
    """Return what two tellings of the same sentence share: its words in any case, its signs exactly, no full stop."""
    words = (word.casefold() if word.strip(_QUOTES).isalpha() else word for word in text.rstrip(_STOPS).split())
    return " ".join(words) or text


def says_again(one: str, other: str) -> bool:
    """Whether two statements are the same but for a greeting or thanks behind one of them."""
    short, long = normalised(one), normalised(other)
    if len(short) > len(long):
        short, long = long, short
    return long.startswith(short) and (short == long or is_courtesy(long[len(short) :]))
