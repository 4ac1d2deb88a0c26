"""What a person types into a chat: lines, commands, and texts of several lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from threadkeep.errors import BadInput

PROMPT = "you › "
MORE = "  … "
BLOCK = '"""'
UNENDED = f"the input ended before the text that {BLOCK} began did; nothing of it was said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something typed, without the space around it; a text of several lines is never a command, whatever it begins with."""

    text: str
    is_command: bool


def entry_from(read: Callable[[str], str]) -> Entry | None:
    """Return what is typed next, read line by line; None where that is nothing, or was interrupted within a text.

    Raises:
        EOFError: There is no more.
        KeyboardInterrupt: A person wants no more of it.
        BadInput: There is no more, and a text was not ended.
    """
    line = read(PROMPT).strip()
    if line != BLOCK:
        return Entry(text=line, is_command=line.startswith("/")) if line else None
    try:
        text = "\n".join(_lines_of_block(read)).strip()
    except KeyboardInterrupt:
        return None
    except EOFError:
        raise BadInput(UNENDED) from None
    return Entry(text=text, is_command=False) if text else None


def _lines_of_block(read: Callable[[str], str]) -> Iterator[str]:
    while (line := read(MORE).rstrip()) != BLOCK:
        yield line
