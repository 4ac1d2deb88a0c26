"""Earlier questions to recall, and what it answered: they hold every word of the same question, and answer nothing."""

from __future__ import annotations

import re
from typing import Final

from threadkeep.items import View

# What the tool is called, alone or behind the name of its server, as clients write it.
_TOOL: Final = re.compile(r"(?:.*threadkeep.*[^a-z0-9])?recall", re.IGNORECASE | re.DOTALL)
# How its answers begin, in each form there is: as text, as JSON, from the server for other clients.
_ANSWER: Final = re.compile(
    r"What was said, word for word:|Nothing that was said matches\.|\{\"recalled\""
    r"|\d+ from thread \S+, best first\. They are quotations|Nothing in thread \S+ matches .*Any one word would have been enough",
    re.DOTALL,
)
# Clients put some words of their own before what a tool returned.
BEGINNING_CHARS: Final = 400


def is_echo(view: View) -> bool:
    """Whether an item is a question to the recall tool, or what it answered."""
    if view.tool is not None:
        return _TOOL.fullmatch(view.tool) is not None
    return bool(view.closes) and _ANSWER.search(view.text, 0, BEGINNING_CHARS) is not None
