"""The README tells the truth: its example runs, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from threadkeep.cli.commands import COMMANDS


def readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


def test_the_library_example_runs_and_prints_what_was_recalled(root: Path, tmp_path: Path) -> None:
    """Copied as it is, in an empty folder."""
    (example,) = re.findall(r"```python\n(.*?)```", readme(root), flags=re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Never touch vendor/." in ran.stdout


def test_every_command_it_names_exists(root: Path) -> None:
    """Nobody is sent to a command that is not there."""
    shown = "\n".join(re.findall(r"```sh\n(.*?)```", readme(root), flags=re.DOTALL))
    named = {*re.findall(r"^threadkeep (\w+)", shown, flags=re.MULTILINE), *re.findall(r"`threadkeep (\w+)", readme(root))}
    assert named <= set(COMMANDS)
    assert {"serve", "threads", "show", "recall", "compact", "undo", "fork", "verify", "doctor"} <= named
