"""How many lines of a state a stranger calls useful: sampled lines on a blind sheet, and the score of the filled sheet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import threadkeep
from benchmarks.readers.corpus import Transcript
from benchmarks.readers.state import read_state
from benchmarks.readers.table import format_table, wilson
from threadkeep.errors import NothingToCompact

INTRODUCTION = (
    "# Each line below stood in a note that an agent gets when it continues a long session.",
    "# Write one letter into the first column: u if the line would help whoever continues the work,",
    "# n if it would not, f if it is false or cannot be understood. Judge each line by itself.",
)
VERDICTS = {"u": "useful", "n": "not useful", "f": "false"}


async def state_lines(transcript: Transcript) -> list[dict[str, Any]]:
    """Return the state lines of a session after one compaction without a target; none where nothing is compacted."""
    with TemporaryDirectory(prefix="readers-") as folder:
        async with threadkeep.open(Path(folder) / "density.db") as tk:
            thread = await tk.thread("density", dialect=transcript.dialect)
            await thread.record(transcript.items)
            try:
                await thread.compact(strategy="extractive")
            except NothingToCompact:
                return []
            window = await thread.window()
    return [{"session": transcript.name, "section": line.section, "text": line.text} for line in read_state(window)]


def make_sheet(lines: Sequence[Mapping[str, Any]], *, per_session: int) -> tuple[str, dict[str, str]]:
    """Return a sheet of sampled lines in an order that says nothing about their build, and its key from id to build.

    The sample is the same whenever the lines are the same.
    """
    groups: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["build"], line["session"]].append(line)
    picked = [line for group in groups.values() for line in sorted(group, key=_digest)[:per_session]]
    rows: list[str] = []
    key: dict[str, str] = {}
    for number, line in enumerate(sorted(picked, key=_digest), start=1):
        name = f"{number:03d}"
        key[name] = line["build"]
        rows.append(f"\t{name}\t{line['section']}\t{' '.join(line['text'].split())}")
    return "\n".join((*INTRODUCTION, *rows, "")), key


def score_sheet(sheet: str, key: Mapping[str, str]) -> str:
    """Return a table with a row a build: lines judged, the share of useful ones with its interval, and the false ones.

    Raises:
        ValueError: A line has no verdict, or one that is not u, n or f.
    """
    verdicts: defaultdict[str, list[str]] = defaultdict(list)
    for row in sheet.splitlines():
        if not row.strip() or row.startswith("#"):
            continue
        verdict, name, *_ = row.split("\t")
        if verdict.strip() not in VERDICTS:
            raise ValueError(f"line {name} of the sheet has the verdict {verdict!r}; write u, n or f")
        verdicts[key[name]].append(verdict.strip())
    rows = [["build", "lines", "useful", "95 %", "false"]]
    for build, given in sorted(verdicts.items()):
        useful = given.count("u")
        low, high = wilson(useful, len(given))
        rows.append([build, str(len(given)), f"{useful / len(given):.0%}", f"{low:.0%}-{high:.0%}", str(given.count("f"))])
    return format_table(rows)


def _digest(line: Mapping[str, Any]) -> str:
    return sha256(f"{line['session']}\n{line['text']}".encode()).hexdigest()
