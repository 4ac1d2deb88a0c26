"""How servers say that a request does not fit, in their many words.

A code is a promise and a sentence is not: codes are looked at first, and sentences only because many servers give nothing else.
Where a sentence names the window, its number is taken.
"""

from __future__ import annotations

import re
from typing import Final

CODES: Final = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "request_too_large",
        "string_above_max_length",
    }
)

_NUMBER: Final = r"(?P<limit>\d[\d,_]{2,})"

# Each pattern is one server's sentence, cut down to the words that make it an overflow. The first that matches decides.
_SENTENCES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"prompt is too long(?:: *\d+ *tokens *> *{_NUMBER})?",
        rf"exceed context limit(?:: *\d+ *\+ *\d+ *> *{_NUMBER})?",
        rf"maximum context length(?: is| of)? (?:only )?{_NUMBER}",
        rf"{_NUMBER} maximum context length",
        rf"maximum prompt length is {_NUMBER}",
        rf"available context size(?: \({_NUMBER} tokens\))?",
        rf"exceeds the maximum number of tokens allowed \({_NUMBER}\)",
        rf"token count of \d+ exceeds the limit of {_NUMBER}",
        rf"context length of only {_NUMBER}",
        # A budget per minute that one request alone exceeds: waiting never helps, sending less does.
        rf"request too large for .*? limit:? {_NUMBER}",
        r"exceeds the context window",
        r"exceeds the (?:model's )?(?:maximum )?context length",
        r"context (?:size|window|length) (?:has been |was |is )?exceeded",
        r"input is too long for requested model",
        r"reduce the length of the (?:messages|prompt|input)",
    )
)

# A window beyond this is a mistake of the sentence, or of whoever wrote it.
_LARGEST_WINDOW: Final = 1_000_000_000


def is_overflow(*, codes: frozenset[str], message: str) -> bool:
    """Whether an error's codes, or failing that its sentence, say that the request does not fit."""
    return not codes.isdisjoint(CODES) or any(pattern.search(message) for pattern in _SENTENCES)


def window_in(message: str) -> int | None:
    """Return the window that a sentence about an overflow names; None where it names none."""
    for pattern in _SENTENCES:
        found = pattern.search(message)
        if found is not None and (limit := found.groupdict().get("limit")):
            window = int(re.sub(r"[,_]", "", limit))
            return window if 0 < window <= _LARGEST_WINDOW else None
    return None
