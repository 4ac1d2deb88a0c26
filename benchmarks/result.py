"""A benchmark's result: figures, and the targets they are compared with."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.samples import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value: a median with its quartiles. `size` is the thread's length in records, where that matters."""

    measure: str
    contender: str
    unit: str
    value: Summary
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound the design sets, and what was found. `met` is None where this run could not tell."""

    what: str
    bound: str
    found: str
    met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Competitor:
    """Who took part; without a version, who could not."""

    name: str
    version: str | None
    durability: str | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where it was measured."""

    processor: str
    cores: int
    system: str
    python: str
    sqlite: str
    fsync_before_ms: Summary
    fsync_after_ms: Summary


@dataclass(slots=True, kw_only=True)
class Found:
    """What the measures put down as they go."""

    figures: list[Figure] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def add(self, measure: str, contender: str, unit: str, value: Summary, *, size: int | None = None) -> None:
        self.figures.append(Figure(measure=measure, contender=contender, unit=unit, value=value, size=size))

    def value(self, measure: str, contender: str = "threadkeep", *, size: int | None = None) -> Summary | None:
        """Return a value put down before, or None."""
        for figure in self.figures:
            if (figure.measure, figure.contender, figure.size) == (measure, contender, size):
                return figure.value
        return None

    def hold(self, what: str, *, bound: str, found: str, met: bool | None) -> None:
        self.targets.append(Target(what=what, bound=bound, found=found, met=met))

    def hold_below(self, what: str, *, at_most: float, value: Summary | None, unit: str) -> None:
        """Hold a median, if there is one, against the most it may be."""
        if value is None:
            self.hold(what, bound=f"≤ {at_most:g} {unit}", found="not measured", met=None)
            return
        found = f"{value.median:.2f} {unit}" + (f" ({value.low:.2f}–{value.high:.2f})" if value.samples > 1 else "")
        self.hold(what, bound=f"≤ {at_most:g} {unit}", found=found, met=value.median <= at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole run."""

    bench: str
    plan: str
    seed: int
    seconds: float
    machine: Machine
    contenders: Sequence[Competitor]
    figures: Sequence[Figure]
    targets: Sequence[Target]

    def as_json(self) -> dict[str, Any]:
        """Return the one object `--json` prints: `bench plan seed seconds machine contenders figures targets`."""
        return asdict(self)


def describe_machine(*, fsync_before: Summary, fsync_after: Summary) -> Machine:
    """Return the facts of this machine that the figures depend on."""
    return Machine(
        processor=_find_processor(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {sys.version.split()[0]}",
        sqlite=sqlite3.sqlite_version,
        fsync_before_ms=fsync_before,
        fsync_after_ms=fsync_after,
    )


def _find_processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
