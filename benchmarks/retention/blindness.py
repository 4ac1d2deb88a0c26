"""Two checks that the benchmark rests on: a question does not hold its answer, and a value stands in a text exactly."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]{3,}")


def gives_away(question: str, *, right: str, wrong: Sequence[str]) -> bool:
    """Whether a question holds an option, or a word that tells the right one from the wrong ones."""
    asked = question.casefold()
    if any(option.casefold() in asked for option in (right, *wrong)):
        return True
    telling = _words(right).difference(*(_words(option) for option in wrong))
    return bool(telling & _words(question))


def stands(value: str, text: str) -> bool:
    """Whether exactly this value stands in `text`: not as a part of a longer code or number, nor as a record's `#N`."""
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        joined_before = at > 0 and _of_code(value[0]) and (_of_code(text[at - 1]) or text[at - 1] == "#")
        joined_after = end < len(text) and _of_code(value[-1]) and _of_code(text[end])
        if not joined_before and not joined_after:
            return True
        at = text.find(value, at + 1)
    return False


def _of_code(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
