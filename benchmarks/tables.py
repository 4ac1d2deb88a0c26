"""The tables and target lines of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.result import Figure, Result, Target
from benchmarks.samples import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of plain text under named columns; a column named `>…` is flush right."""

    title: str
    aside: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def list_facts(result: Result) -> list[str]:
    """Return the machine and the contenders, a line each."""
    at = result.machine
    lines = [
        f"{at.processor}, {at.cores} cores, {at.system}, {at.python}, SQLite {at.sqlite}",
        f"fsync of one page: {_format_summary(at.fsync_before_ms)} ms before, {_format_summary(at.fsync_after_ms)} ms after",
    ]
    for each in result.contenders:
        there = "not installed" if each.version is None else f"{each.version}; {each.durability}"
        lines.append(f"{each.name}: {there}{f'; {each.note}' if each.note else ''}")
    return lines


def build_tables(result: Result) -> list[Table]:
    """Return the figures: those that several took part in by name, those of threadkeep alone by length.

    What depends on neither stands among the targets.
    """
    names = [each.name for each in result.contenders if each.version is not None]
    shared = {figure.measure for figure in result.figures if figure.contender != "threadkeep"}
    beside = [figure for figure in result.figures if figure.measure in shared]
    alone = [figure for figure in result.figures if figure.measure not in shared and figure.size is not None]
    sizes = sorted({figure.size for figure in alone if figure.size is not None})
    tables = [
        Table(
            title="Beside others",
            aside="same rows, same durability, in turns; ± half of the middle half",
            columns=["", *(f">{name.split()[-1]}" for name in names)],
            rows=_build_rows(beside, columns=names, by_name=True),
        ),
        Table(
            title="By the thread's length in records",
            aside="the same window at every length",
            columns=["", *(f">{size:,}" for size in sizes)],
            rows=_build_rows(alone, columns=[str(size) for size in sizes], by_name=False),
        ),
    ]
    return [table for table in tables if table.rows]


def list_targets(targets: Sequence[Target]) -> list[tuple[str, str, str, str]]:
    """Return each target as verdict, what was found, bound and name."""
    words = {True: "met", False: "missed", None: "not told"}
    return [(words[each.met], each.found, each.bound, each.what) for each in targets]


def _build_rows(figures: Sequence[Figure], *, columns: Sequence[str], by_name: bool) -> list[list[str]]:
    """Return one row a measure; a missing value is a dash."""
    lines: dict[str, dict[str, str]] = {}
    for figure in figures:
        length = f" {figure.size:,}" if by_name and figure.size is not None else ""
        line = lines.setdefault(f"{figure.measure}{length}, {figure.unit}", {})
        line[figure.contender if by_name else str(figure.size)] = _format_summary(figure.value)
    return [[name, *(line.get(column, "–") for column in columns)] for name, line in lines.items()]


def _format_summary(value: Summary) -> str:
    return _format_number(value.median) + (f"±{_format_number((value.high - value.low) / 2)}" if value.samples > 1 else "")


def _format_number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
