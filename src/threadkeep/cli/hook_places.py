"""What hooks need to know about the machine they run on: where threadkeep is, and where it keeps what it did for clients."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

LARGEST_FAILURES = 1 << 20
FOLDER = "~/.local/share/threadkeep/client-hooks"


def data_folder() -> Path:
    """Return where threadkeep remembers what it did for clients."""
    return Path(FOLDER).expanduser()


def own_program() -> tuple[str, ...]:
    """Return the words that start this very threadkeep from anywhere: a client has a PATH of its own."""
    script = Path(sys.executable).parent / "threadkeep"
    if script.exists():
        return (str(script),)
    found = shutil.which("threadkeep")
    return (found,) if found else (sys.executable, "-m", "threadkeep.cli")


def note_failure(text: str, *, client: str) -> None:
    """Add a line about a hook that could not do its work to the file that keeps them; a hook has no other witness.

    Raises:
        OSError: The file cannot be written.
    """
    file = data_folder() / "failures.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    # Something that fails every time must not fill a disk; what is looked for is the newest.
    full = file.exists() and file.stat().st_size > LARGEST_FAILURES
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "client": client, "text": text}
    with file.open("w" if full else "a", encoding="utf-8") as failures:
        failures.write(json.dumps(line) + "\n")
