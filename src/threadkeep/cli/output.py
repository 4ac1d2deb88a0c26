"""Where a command's answer goes: one JSON object for machines, a screen for people, one sentence when it failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from threadkeep.cli.cleaning import escaped_json, one_line
from threadkeep.errors import BrokenWindow, NothingToCompact, StaleCheckpoint, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.cli.screen import Screen


def print_json(value: object) -> None:
    """Print `value` as one JSON object on one line, in UTF-8 whatever the terminal speaks."""
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(escaped_json(msgspec.json.encode(value)) + b"\n")
    sys.stdout.buffer.flush()


def open_screen() -> Screen:
    """Return the screen people read; colour only where it is a terminal and `NO_COLOR` is not set."""
    from threadkeep.cli.screen import Screen

    return Screen()


def print_error(error: ThreadkeepError, *, as_json: bool) -> None:
    """Say on stderr what went wrong, and with `as_json` its code too; of a compaction, also what was tried and what it cost."""
    import msgspec

    message = one_line(str(error))
    print(f"threadkeep: {message}", file=sys.stderr)
    tried = error.attempts if isinstance(error, NothingToCompact | StaleCheckpoint | BrokenWindow) else ()
    if as_json:
        told = {"error": error.code, "message": message, **({"attempts": tried} if tried else {})}
        print(escaped_json(msgspec.json.encode(told)).decode("utf-8"), file=sys.stderr)
        return
    from threadkeep.cli.attempts import attempt_told

    for attempt in tried:
        print(f"  tried {one_line(attempt_told(attempt))}", file=sys.stderr)
