"""`python -m benchmarks WHAT`: runs one measure and prints its figures."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.command import cases, compaction, dataset, guard, report, retention
from benchmarks.command.arguments import add_measures
from benchmarks.command.proxies import named_proxies
from benchmarks.gateway import run as gateway
from benchmarks.store.run import FULL, QUICK, run_store
from benchmarks.store.server import run_server
from benchmarks.tables import facts, tables, target_rows
from threadkeep.cli.output import open_screen, print_error, print_json
from threadkeep.errors import BadInput, ThreadkeepError
from threadkeep.store.locations import is_file

if TYPE_CHECKING:
    from benchmarks.result import Result
    from threadkeep.cli.screen import Part, Screen

# Measures with an answer of their own; the others print a `Result`.
_COMMANDS = {
    "retention": retention.run,
    "compaction": compaction.run,
    "cases": cases.run,
    "dataset": dataset.run,
    "guard": guard.run,
    "report": report.run,
}
_STYLES = {"met": "green", "missed": "bold red", "not told": "yellow"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one measure; 0 when it is done, 1 on a named error, 2 on wrong usage."""
    parser = ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the store, the gateway, compactions and what they keep, beside others in one run on this machine.",
        epilog="example:\n  python -m benchmarks store --full -o store.json",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_measures(parser)
    parser.set_defaults(store=None, json=False)
    args = parser.parse_args(argv)
    try:
        return run(args)
    except ThreadkeepError as error:
        print_error(error, as_json=args.json)
        return 1
    except KeyboardInterrupt:
        return 130


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
        raise BadInput("only `store` takes --store, and only a server's address: postgresql://…")
    if args.what == "gateway":
        gateway_plan = gateway.FULL if args.full else gateway.QUICK
        return await gateway.run_gateway(gateway_plan, seed=args.seed, say=_say, pythons=named_proxies(args.proxy))
    plan = FULL if args.full else QUICK
    if server is not None:
        return await run_server(plan, url=server, seed=args.seed, say=_say)
    return await run_store(plan, seed=args.seed, say=_say)


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


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
