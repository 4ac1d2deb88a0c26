"""Where the answer of a command goes: a screen for people, one JSON object for machines, errors on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from threadkeep.cli.safe_text import clean_line, escape_json
from threadkeep.errors import BrokenWindow, NothingToCompact, StaleCheckpoint, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Screen


def open_screen() -> Screen:
    """Return the screen people read. It has colour only where it is a terminal and `NO_COLOR` is not set."""
    from threadkeep.cli.terminal import Screen

    return Screen()


def print_json(value: object) -> None:
    """Print `value` as one JSON object on one line, in UTF-8 whatever the terminal's encoding is."""
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(escape_json(msgspec.json.encode(value)) + b"\n")
    sys.stdout.buffer.flush()


def print_error(error: ThreadkeepError, *, as_json: bool) -> None:
    """Print an error on stderr, and with `as_json` its code too; of a failed compaction also each attempt and its cost."""
    message = clean_line(str(error))
    print(f"threadkeep: {message}", file=sys.stderr)
    attempts = error.attempts if isinstance(error, NothingToCompact | StaleCheckpoint | BrokenWindow) else ()
    if as_json:
        import msgspec

        answer = {"error": error.code, "message": message, **({"attempts": attempts} if attempts else {})}
        print(escape_json(msgspec.json.encode(answer)).decode("utf-8"), file=sys.stderr)
    elif attempts:
        from threadkeep.viewer.record_lines import describe_attempt

        for attempt in attempts:
            print(f"  tried {clean_line(describe_attempt(attempt))}", file=sys.stderr)


def ask_user(question: str) -> bool:
    """Ask at a terminal; without one the answer is no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
