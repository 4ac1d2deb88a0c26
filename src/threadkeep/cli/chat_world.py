"""What a chat's model is told about where it is; only what changed costs anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from platform import platform
from typing import Final

INSTRUCTION_FILE: Final = "AGENTS.md"
MAX_INSTRUCTION_BYTES: Final = 64 * 1024
NO_FOLDER: Final = "none: the folder this was started in is gone"


def world_around(model: str, *, trouble: Callable[[str], None]) -> dict[str, object]:
    """Return the folder, the date, the system, the model and the folder's instructions; `trouble` is told what cannot be read."""
    now = datetime.now().astimezone()
    world: dict[str, object] = {
        "cwd": _folder(),
        "date": now.date().isoformat(),
        "timezone": now.tzname() or "",
        "system": platform(terse=True),
        "model": model,
    }
    try:
        instructions = _instructions(Path(INSTRUCTION_FILE))
    except OSError as error:
        trouble(f"{INSTRUCTION_FILE} of this folder cannot be read ({error.strerror or type(error).__name__}); it is left out")
        instructions = None
    return world if instructions is None else {**world, INSTRUCTION_FILE: instructions}


def _folder() -> str:
    try:
        # Names are bytes; those that are no UTF-8 are told as far as they can be.
        return os.fsencode(Path.cwd()).decode("utf-8", "replace")
    except FileNotFoundError:
        return NO_FOLDER


def _instructions(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        return opened.read(MAX_INSTRUCTION_BYTES).decode("utf-8", "replace")
