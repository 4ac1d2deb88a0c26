"""Measures the parts of a report; a part that cannot run gives its reason, and the others still run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import aiohttp

from benchmarks import tables as result_tables
from benchmarks.cases import aggregates as cases_report
from benchmarks.cases.lab import make_scripted_model
from benchmarks.cases.manifest import load_manifest
from benchmarks.cases.readers import LiteralReader
from benchmarks.cases.run import CHAIN, Terms, run_cases
from benchmarks.compaction import run as compaction
from benchmarks.compactors.peer import Peers
from benchmarks.compactors.process import Named
from benchmarks.gateway import run as gateway
from benchmarks.report import kit
from benchmarks.report.origin import read_origin
from benchmarks.report.part import Part, keep_tables, keep_targets
from benchmarks.report.startup import measure_start, start_table
from benchmarks.result import Figure, Result, Target
from benchmarks.retention import report as retention_report
from benchmarks.retention import run as retention
from benchmarks.store import run as store
from benchmarks.tables import Table
from threadkeep import __version__
from threadkeep.errors import ThreadkeepError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything is measured; no `case_hops` are all of them."""

    name: str
    retention: retention.Plan
    store: store.Plan
    gateway: gateway.Plan
    compaction: compaction.Plan
    case_hops: int
    kit_seeds: int
    starts: int


QUICK = Plan(
    name="quick",
    retention=replace(retention.QUICK, dialects=("chat",), seeds=2, turns=25, hops=5, scored=(1, 3, 5)),
    store=replace(store.QUICK, append_rounds=9, rounds=5, sizes=(10, 1_000, 10_000), loaded=(1_000,), probes=30),
    gateway=replace(gateway.QUICK, sizes=(1_000, gateway.MEGABYTE), rounds=7, seconds=1, probes=10),
    compaction=replace(compaction.QUICK, span_tokens=200_000, row=5),
    case_hops=3,
    kit_seeds=1,
    starts=3,
)
FULL = Plan(
    name="full",
    retention=replace(retention.FULL, dialects=("chat",)),
    store=store.FULL,
    gateway=replace(gateway.FULL, rounds=41, seconds=10),
    compaction=compaction.FULL,
    case_hops=0,
    kit_seeds=4,
    starts=11,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for beside the plan: a seed, and who else takes part where compactors, and proxies, are compared."""

    seed: int
    peers: Sequence[Named] = ()
    proxies: Mapping[str, str] = field(default_factory=dict)


class CannotRun(Exception):
    """A part that cannot be measured here; the text says why."""


class PartFailed(Exception):
    """A part that broke off; the text says how."""


# What a peer's process that ends or says nonsense, another's library that changed its names, a server that does not answer and a
# disk can do to a part. A part that fails by them costs nothing but itself.
BREAKS_OFF = (
    OSError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ImportError,
    ThreadkeepError,
    subprocess.SubprocessError,
    aiohttp.ClientError,
    gateway.Unhelpful,
)


def measure(name: str, plan: Plan, *, asked: Asked, say: Say) -> Part:
    """Measure one part.

    Raises:
        CannotRun: Something it needs is not installed.
        PartFailed: It broke off.
    """
    # Before it begins: files that change while it is measured are not what runs.
    there, busy, began = read_origin(), _load(), time.monotonic()
    try:
        made = MEASURES[name](plan, asked, say)
    except BREAKS_OFF as error:
        raise PartFailed(f"{type(error).__name__}: {error}") from error
    return Part(
        name=name,
        plan=plan.name,
        seed=asked.seed,
        seconds=round(time.monotonic() - began, 1),
        at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        threadkeep=__version__,
        facts=[*made.facts, *busy],
        targets=keep_targets(made.targets),
        tables=keep_tables(made.tables),
        data=made.data,
        origin=there,
    )


def _load() -> list[str]:
    """Return how busy the machine is, where the system says so."""
    return [f"load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"] if hasattr(os, "getloadavg") else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a measure came to."""

    facts: list[str]
    targets: Sequence[Target]
    tables: Sequence[Table]
    data: dict[str, Any]


def _measure_retention(family: str) -> Callable[[Plan, Asked, Say], Made]:
    def made(plan: Plan, asked: Asked, say: Say) -> Made:
        with Peers(asked.peers) as peers:
            found = asyncio.run(retention.run_retention(plan.retention, family=family, seed=asked.seed, say=say, more=peers.arms))
        return Made(
            facts=[*retention_report.list_facts(found), *peers.messages],
            targets=found.targets,
            tables=retention_report.build_tables(found),
            data=_compact(found.scored_json()),
        )

    return made


def _compact(scored: dict[str, Any]) -> dict[str, Any]:
    """Return what was scored with its thousands of cells as rows, and what was lost only counted: the lines of sessions that
    nobody is to tune on stay where they are."""
    for name in ("cells", "sizes", "recalled"):
        columns = list(scored[name][0]) if scored[name] else []
        scored[name] = {"columns": columns, "rows": [[each[column] for column in columns] for each in scored[name]]}
    for name in ("lost", "unrecalled"):
        scored[name] = len(scored[name])
    return scored


def _convert_result(found: Result) -> Made:
    return Made(
        facts=result_tables.list_facts(found),
        targets=found.targets,
        tables=[table for table in result_tables.build_tables(found) if table.rows],
        data=found.as_json(),
    )


def _measure_store(plan: Plan, asked: Asked, say: Say) -> Made:
    return _convert_result(asyncio.run(store.run_store(plan.store, seed=asked.seed, say=say)))


def _measure_gateway(plan: Plan, asked: Asked, say: Say) -> Made:
    return _convert_result(asyncio.run(gateway.run_gateway(plan.gateway, seed=asked.seed, say=say, pythons=asked.proxies)))


def _measure_compaction(plan: Plan, asked: Asked, say: Say) -> Made:
    found = compaction.run_compaction(plan.compaction, seed=asked.seed, say=say)
    table = Table(
        title="Times and memory",
        aside="the plain pass decodes the same items and cuts them into words",
        columns=["", "who", ">found"],
        rows=[[f"{figure.measure}, {figure.unit}", figure.contender, _format_figure(figure)] for figure in found.figures],
    )
    return Made(facts=[found.machine], targets=found.targets, tables=[table], data=found.as_json())


def _format_figure(figure: Figure) -> str:
    value = figure.value
    spread = f" ({value.low:,.2f}–{value.high:,.2f})" if value.samples > 1 else ""
    return f"{value.median:,.2f}{spread}"


def _measure_cases(plan: Plan, asked: Asked, say: Say) -> Made:
    """Cases with the reader that looks words up and a faithful summariser; real readers are named to the command of its own."""
    terms = Terms(chain=True, variants=CHAIN, hops=plan.case_hops, seed=asked.seed)
    summariser = make_scripted_model("faithful", seed=asked.seed)
    found = asyncio.run(run_cases(load_manifest(), terms, reader=LiteralReader(), summariser=summariser, say=say))
    data = {**found.as_json(), "aggregates": cases_report.compute_aggregates(found)}
    return Made(facts=cases_report.list_facts(found), targets=[], tables=cases_report.build_tables(found), data=data)


def _measure_kit(plan: Plan, asked: Asked, say: Say) -> Made:
    there = kit.find_kit_version()
    if there is None:
        raise CannotRun(f"{kit.PACKAGE} is not installed")
    say(f"{kit.PACKAGE} {there}: {plan.kit_seeds} seeds, five rounds, three budgets")
    found, tables, data = kit.measure_kit(seeds=plan.kit_seeds)
    seeds = "seed 1" if plan.kit_seeds == 1 else f"seeds 1 to {plan.kit_seeds}"
    return Made(facts=[f"{kit.PACKAGE} {there}, {seeds}"], targets=found.targets, tables=tables, data=data)


def _measure_start(plan: Plan, asked: Asked, say: Say) -> Made:
    say(f"starting the interpreter, the library and the command line, {plan.starts} times each")
    found = measure_start(rounds=plan.starts)
    data = {"figures": [asdict(figure) for figure in found.figures]}
    return Made(facts=["processes of their own, in turns"], targets=found.targets, tables=[start_table(found)], data=data)


MEASURES: Mapping[str, Callable[[Plan, Asked, Say], Made]] = {
    "start": _measure_start,
    "retention-frozen": _measure_retention("frozen"),
    "retention-story": _measure_retention("story"),
    "cases": _measure_cases,
    "kit": _measure_kit,
    "compaction": _measure_compaction,
    "store": _measure_store,
    "gateway": _measure_gateway,
}
