"""`threadkeep bench`: our figures, beside peers', on your machine."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from threadkeep.bench.gateway import run as gateway
from threadkeep.bench.report import facts, tables, target_rows
from threadkeep.bench.store import FULL, QUICK, run_store
from threadkeep.bench.store_server import run_server
from threadkeep.cli import bench_cases, bench_compaction, bench_dataset, bench_guard, bench_report, bench_retention
from threadkeep.cli.bench_proxies import named_proxies
from threadkeep.cli.output import open_screen, print_json
from threadkeep.errors import BadInput
from threadkeep.runtime.locations import is_file

if TYPE_CHECKING:
    from threadkeep.bench.result import Result
    from threadkeep.cli.screen import Part, Screen

# Measures with an answer of their own; the others print a `Result`.
_COMMANDS = {
    "retention": bench_retention.run,
    "compaction": bench_compaction.run,
    "cases": bench_cases.run,
    "dataset": bench_dataset.run,
    "guard": bench_guard.run,
    "report": bench_report.run,
}
_STYLES = {"met": "green", "missed": "bold red", "not told": "yellow"}


def run(args: Namespace) -> int:
    """Measure, say on stderr what is being measured, and print the figures. A missed target is a finding, not a failure."""
    if args.what in _COMMANDS:
        return _COMMANDS[args.what](args)
    output = None if args.output is None else Path(args.output)
    if output is not None and not output.parent.is_dir():
        raise BadInput(f"there is no folder {str(output.parent)!r} to write {output.name!r} into")
    result = asyncio.run(_measured(args))
    if output is not None:
        output.write_bytes(msgspec.json.encode(result.as_json()) + b"\n")
    if args.json:
        print_json(result.as_json())
    else:
        _tell(open_screen(), result)
    return 0


async def _measured(args: Namespace) -> Result:
    server: str | None = getattr(args, "store", None)
    if server is not None and (args.what != "store" or is_file(server)):
        raise BadInput("bench takes --store for `bench store` alone, and only a server's address: postgresql://…")
    if args.what == "gateway":
        gateway_plan = gateway.FULL if args.full else gateway.QUICK
        return await gateway.run_gateway(gateway_plan, seed=args.seed, say=_say, pythons=named_proxies(args.proxy))
    plan = FULL if args.full else QUICK
    if server is not None:
        return await run_server(plan, url=server, seed=args.seed, say=_say)
    return await run_store(plan, seed=args.seed, say=_say)


def _say(text: str) -> None:
    print(f"threadkeep bench: {text}", file=sys.stderr, flush=True)


def _tell(screen: Screen, result: Result) -> None:
    screen.line((f"bench {result.bench}", "bold"), f"  {result.plan}, seed {result.seed}, {result.seconds:.0f} s")
    for line in facts(result):
        screen.line(line, indent=2)
    for table in tables(result):
        screen.heading(table.title, table.aside)
        screen.table(table.columns, table.rows, indent=2)
    screen.heading("Targets", "ratios count, not seconds")
    rows: list[list[Part]] = [
        [(verdict, _STYLES[verdict]), found, bound, what] for verdict, found, bound, what in target_rows(result.targets)
    ]
    screen.table(["", "found", "bound", "what"], rows, indent=2)
