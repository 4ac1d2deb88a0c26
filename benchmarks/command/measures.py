"""The commands of the measures that print one result: store, gateway, compaction, dataset and guard."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command.console import check_output, parse_proxies, print_tables, print_targets, say, write_output
from benchmarks.compaction import run as compaction
from benchmarks.datasets.formats import load
from benchmarks.datasets.run import build_table, run_dataset
from benchmarks.gateway import run as gateway
from benchmarks.guard.counts import count_all, find_expected_file, list_changes, read_expected, write_expected
from benchmarks.store.run import FULL, QUICK, run_store
from benchmarks.store.server import run_server
from benchmarks.tables import build_tables, list_facts
from threadkeep.cli.output import open_screen, print_json
from threadkeep.errors import BadInput
from threadkeep.store.locations import is_file

if TYPE_CHECKING:
    from benchmarks.result import Result
    from threadkeep.cli.terminal import Part


def run_store_or_gateway(args: Namespace) -> int:
    """Measure and print the figures. A missed target is a finding, not a failure."""
    output = check_output(args)
    result = asyncio.run(_measure(args))
    write_output(output, result.as_json())
    if args.json:
        print_json(result.as_json())
        return 0
    screen = open_screen()
    screen.write((f"bench {result.bench}", "bold"), f"  {result.plan}, seed {result.seed}, {result.seconds:.0f} s")
    for line in list_facts(result):
        screen.write(line, indent=2)
    print_tables(screen, build_tables(result))
    print_targets(screen, result.targets)
    return 0


async def _measure(args: Namespace) -> Result:
    server: str | None = getattr(args, "store", None)
    if server is not None and (args.what != "store" or is_file(server)):
        raise BadInput("only `store` takes --store, and only a server's address: postgresql://…")
    if args.what == "gateway":
        gateway_plan = gateway.FULL if args.full else gateway.QUICK
        return await gateway.run_gateway(gateway_plan, seed=args.seed, say=say, pythons=parse_proxies(args.proxy))
    plan = FULL if args.full else QUICK
    if server is not None:
        return await run_server(plan, url=server, seed=args.seed, say=say)
    return await run_store(plan, seed=args.seed, say=say)


def run_compaction(args: Namespace) -> int:
    """Measure what planning, merging and auditing cost, and print it."""
    output = check_output(args)
    plan = compaction.FULL if args.full else compaction.QUICK
    result = compaction.run_compaction(plan, seed=args.seed, say=say)
    write_output(output, result.as_json())
    if args.json:
        print_json(result.as_json())
        return 0
    lines: dict[str, dict[str, str]] = {}
    for figure in result.figures:
        value = figure.value
        spread = f" ({_format_number(value.low)}–{_format_number(value.high)})" if value.samples > 1 else ""
        line = lines.setdefault(f"{figure.measure}, {figure.unit}", {})
        line[figure.contender] = f"{_format_number(value.median)}{spread}"
    rows: list[list[Part]] = [
        [measure, line.get("threadkeep", "–"), line.get(compaction.PLAIN, "")] for measure, line in lines.items()
    ]
    screen = open_screen()
    screen.write(("bench compaction", "bold"), f"  {result.plan.name}, seed {result.seed}, {result.seconds:.0f} s")
    screen.write(result.machine, indent=2)
    screen.write_heading("Figures", "the plain pass decodes the same items and cuts them into words")
    screen.write_table(["", ">threadkeep", ">plain pass"], rows, indent=2)
    print_targets(screen, result.targets)
    return 0


def run_dataset_command(args: Namespace) -> int:
    """Measure recall over a dataset and print it. The files stay where they are; nothing of them is kept."""
    talks = load(args.form, Path(args.path))[: args.limit]
    found = asyncio.run(run_dataset(args.form, talks, say=say))
    if args.json:
        print_json(found.as_json())
        return 0
    screen = open_screen()
    screen.write((f"bench dataset {args.form}", "bold"), f"  {found.conversations} conversations, {found.messages:,} messages")
    screen.write(
        f"{found.history_tokens:,} tokens of history, {found.window_tokens:,} of windows after {found.compactions} compactions; "
        f"{found.without_evidence} questions without evidence were not asked",
        indent=2,
    )
    print_tables(screen, [build_table(found)])
    return 0


def run_guard(args: Namespace) -> int:
    """Count, and print what is not as expected: exit 1 if anything is; with `--write` it becomes what is expected, and exit 0."""
    file = find_expected_file() if args.expected is None else Path(args.expected)
    expected = read_expected(file)
    found = asyncio.run(count_all(say=say))
    lines = list_changes(expected, found)
    if args.write:
        write_expected(found, file)
    if args.json:
        print_json({"ok": not lines, "changed": lines, "counts": found})
    else:
        screen = open_screen()
        screen.write(f"{sum(map(len, found.values()))} counts, {len(lines)} changed{', written' if args.write and lines else ''}")
        for line in lines:
            screen.write(line, indent=2)
    return 1 if lines and not args.write else 0


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
