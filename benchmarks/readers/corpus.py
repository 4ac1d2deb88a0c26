"""Real sessions from a folder of transcripts, read through `threadkeep import`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A session as provider JSON, oldest item first."""

    name: str
    dialect: str
    items: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file or session that is not used, and why."""

    name: str
    reason: str


# Folders of a corpus that hold sessions of agents; others hold question sets and format samples.
FOLDERS = ("pi", "codex", "claude", "swe-smith", "swe-agent", "cline")


def read_corpus(folder: Path) -> Iterator[Transcript | Skipped]:
    """Yield every session of the corpus, in the order of its file names; a file that cannot be read is skipped with a reason."""
    for name in FOLDERS:
        if not (folder / name).is_dir():
            yield Skipped(name=name, reason="no such folder")
            continue
        for path in sorted(each for each in (folder / name).rglob("*") if each.is_file()):
            yield from _read_file(path, name=str(path.relative_to(folder)))


def half_of(name: str, cut: int) -> str:
    """Return `build` or `held`: cuts that may be looked at while building, and cuts that may not."""
    return "held" if sha256(f"{name}:{cut}".encode()).digest()[0] % 2 else "build"


def _read_file(path: Path, *, name: str) -> Iterator[Transcript | Skipped]:
    with TemporaryDirectory(prefix="readers-") as folder:
        store = ["--store", str(Path(folder) / "corpus.db"), "--json"]
        imported = _run(["import", str(path), *store])
        if "threads" not in imported:
            yield Skipped(name=name, reason=str(imported.get("message", "the import failed")))
            return
        for thread in imported["threads"]:
            shown = _run(["show", thread["id"], "--records", *store])
            items = tuple(record["body"] for record in shown["records"] if record["kind"] == "item")
            several = len(imported["threads"]) > 1
            yield Transcript(name=f"{name}:{thread['id']}" if several else name, dialect=thread["dialect"], items=items)


def _run(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "threadkeep.cli", *arguments], capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    return answer
