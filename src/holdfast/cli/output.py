"""Where a command's answer goes: one JSON object for machines, a screen for people, one sentence when it failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.cli.cleaning import escaped_json, one_line
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.cli.screen import Screen


def print_json(value: object) -> None:
    """Print `value` as one JSON object on one line, in UTF-8 whatever the terminal speaks."""
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(escaped_json(msgspec.json.encode(value)) + b"\n")
    sys.stdout.buffer.flush()


def open_screen() -> Screen:
    """Return the screen people read; colour only where it is a terminal and `NO_COLOR` is not set."""
    from holdfast.cli.screen import Screen

    return Screen()


def print_error(error: HoldfastError, *, as_json: bool) -> None:
    """Say on stderr what went wrong, and with `as_json` its code too."""
    import msgspec

    message = one_line(str(error))
    print(f"holdfast: {message}", file=sys.stderr)
    if as_json:
        print(escaped_json(msgspec.json.encode({"error": error.code, "message": message})).decode("utf-8"), file=sys.stderr)
