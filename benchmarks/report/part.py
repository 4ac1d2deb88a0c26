"""One part of a report as a file: how it was measured, its results, and the data behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report.origin import Origin
from benchmarks.result import Target
from benchmarks.tables import Table
from threadkeep.errors import BadInput

FOLDER = "parts"
NAMES = ("start", "retention-frozen", "retention-story", "cases", "kit", "compaction", "store", "gateway")


class KeptTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table; a column named `>…` is flush right."""

    title: str
    aside: str
    columns: list[str]
    rows: list[list[str]]


class KeptTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A bound, what was found, and whether it holds; None where the run could not tell."""

    what: str
    bound: str
    found: str
    met: bool | None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part that was measured. `data` is the one object its own command prints; `at` is when it ended, in UTC.

    `origin` is where it was measured and of what code; a part kept by an earlier threadkeep does not say, which reads as unknown.
    """

    name: str
    plan: str
    seed: int
    seconds: float
    at: str
    threadkeep: str
    facts: list[str]
    targets: list[KeptTarget]
    tables: list[KeptTable]
    data: dict[str, Any]
    origin: Origin = msgspec.field(default_factory=Origin)


def keep_targets(targets: Sequence[Target]) -> list[KeptTarget]:
    return [KeptTarget(what=each.what, bound=each.bound, found=each.found, met=each.met) for each in targets]


def keep_tables(tables: Sequence[Table]) -> list[KeptTable]:
    return [
        KeptTable(
            title=each.title,
            aside=each.aside,
            columns=list(each.columns),
            rows=[[str(cell) for cell in row] for row in each.rows],
        )
        for each in tables
    ]


def write_part(part: Part, folder: Path) -> Path:
    """Write a part into a report's folder, whole or not at all."""
    parts = folder / FOLDER
    parts.mkdir(parents=True, exist_ok=True)
    path = parts / f"{part.name}.json"
    beside = path.with_suffix(".part")
    beside.write_bytes(msgspec.json.encode(part) + b"\n")
    beside.replace(path)
    return path


def read_parts(folder: Path) -> Mapping[str, Part]:
    """Return every part that a report's folder holds; a file that has the name of none is not looked at.

    Raises:
        BadInput: A file with the name of a part is none, or is another.
    """
    found: dict[str, Part] = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        if path.stem not in NAMES:
            continue
        try:
            part = msgspec.json.decode(path.read_bytes(), type=Part)
        except msgspec.DecodeError as error:
            raise BadInput(f"{str(path)!r} is no part of a report: {error}; remove it and measure again") from error
        if part.name != path.stem:
            raise BadInput(f"{str(path)!r} holds the part {part.name!r}; remove it and measure again")
        found[part.name] = part
    return found
