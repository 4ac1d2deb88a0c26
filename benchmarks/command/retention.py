"""`python -m benchmarks retention`: which facts are still there after many compactions."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.compactors.hosts import host_peers, host_rows, hosts_table
from benchmarks.compactors.peer import Peers, named_peer
from benchmarks.retention.plots import can_plot, write_plots
from benchmarks.retention.report import facts, markdown, tables
from benchmarks.retention.run import FAMILIES, FULL, QUICK, run_retention
from benchmarks.tables import target_rows
from threadkeep.cli.output import open_screen, print_json
from threadkeep.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compactors.hosts import HostRow
    from benchmarks.retention.run import Retained
    from threadkeep.cli.screen import Part, Screen

_STYLES = {"met": "green", "missed": "bold red", "not told": "yellow"}


def run(args: Namespace) -> int:
    """Measure, say on stderr what is being measured, and print the figures. A missed target is a finding, not a failure."""
    output = None if args.output is None else Path(args.output)
    plots = None if args.plots is None else Path(args.plots)
    if output is not None and not output.parent.is_dir():
        raise BadInput(f"there is no folder {str(output.parent)!r} to write {output.name!r} into")
    if plots is not None and not plots.is_dir():
        raise BadInput(f"there is no folder {str(plots)!r} to write plots into")
    plan = FULL if args.full else QUICK
    families = tuple(FAMILIES) if args.family == "both" else (args.family,)
    named = [named_peer(text) for text in args.peer]
    results: list[Retained] = []
    hosts: dict[str, list[HostRow]] = {}
    with Peers(host_peers(named) if args.hosts else named) as peers:
        if peers.versions and "chat" not in plan.dialects:
            plan = replace(plan, dialects=("chat",))
        for family in families:
            before = len(peers.arms_made)
            result = asyncio.run(run_retention(plan, family=family, seed=args.seed, say=_say, more=peers.arms))
            results.append(result)
            if args.hosts:
                hosts[family] = host_rows(result, peers.arms_made[before:])
    for line in peers.told:
        _say(line)
    printed: dict[str, object] = {"bench": "retention", "families": [result.as_json() for result in results]}
    if args.hosts:
        printed["hosts"] = {family: [row.as_json() for row in rows] for family, rows in hosts.items()}
        printed["not_installed"] = peers.missing
    if output is not None:
        output.write_bytes(msgspec.json.encode(printed) + b"\n")
    if plots is not None:
        _write(results, plots)
    if args.json:
        print_json(printed)
    else:
        screen = open_screen()
        for result in results:
            _tell(screen, result, hosts=hosts.get(result.family, ()))
    return 0


def _write(results: Sequence[Retained], folder: Path) -> None:
    tables_file = folder / "retention.md"
    tables_file.write_text(markdown(results), encoding="utf-8")
    _say(f"wrote {tables_file}")
    if not can_plot():
        _say("no plots: matplotlib is not installed")
        return
    for result in results:
        for path in write_plots(result, folder):
            _say(f"wrote {path}")


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


def _tell(screen: Screen, result: Retained, *, hosts: Sequence[HostRow]) -> None:
    screen.line(("bench retention", "bold"), f"  {result.family}, {result.plan.name}, seed {result.seed}, {result.seconds:.0f} s")
    for line in facts(result):
        screen.line(line, indent=2)
    through = [hosts_table(hosts, hops=result.plan.hops, sessions=result.plan.seeds)] if hosts else []
    for table in (*tables(result), *through):
        screen.heading(table.title, table.aside)
        screen.table(table.columns, table.rows, indent=2)
    screen.heading("Targets", "not told where the run is too short for the bound")
    rows: list[list[Part]] = [
        [(verdict, _STYLES[verdict]), found, bound, what] for verdict, found, bound, what in target_rows(result.targets)
    ]
    screen.table(["", "found", "bound", "what"], rows, indent=2)
