"""`python -m benchmarks retention`: which facts are still there after many compactions."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.command.console import check_output, print_tables, print_targets, say, write_output
from benchmarks.compactors.hosts import build_hosts_table, list_host_peers, list_host_rows
from benchmarks.compactors.peer import Peers, parse_peer
from benchmarks.retention.report import build_tables, list_facts
from benchmarks.retention.run import FAMILIES, FULL, QUICK, run_retention
from threadkeep.cli.output import open_screen, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compactors.hosts import HostRow
    from benchmarks.retention.run import Retained
    from threadkeep.cli.terminal import Screen


def run(args: Namespace) -> int:
    """Measure and print the figures. A missed target is a finding, not a failure."""
    output = check_output(args)
    plan = FULL if args.full else QUICK
    families = tuple(FAMILIES) if args.family == "both" else (args.family,)
    named = [parse_peer(text) for text in args.peer]
    results: list[Retained] = []
    hosts: dict[str, list[HostRow]] = {}
    with Peers(list_host_peers(named) if args.hosts else named) as peers:
        if peers.versions and "chat" not in plan.dialects:
            plan = replace(plan, dialects=("chat",))
        for family in families:
            before = len(peers.arms_made)
            result = asyncio.run(run_retention(plan, family=family, seed=args.seed, say=say, more=peers.arms))
            results.append(result)
            if args.hosts:
                hosts[family] = list_host_rows(result, peers.arms_made[before:])
    for line in peers.messages:
        say(line)
    printed: dict[str, object] = {"bench": "retention", "families": [result.as_json() for result in results]}
    if args.hosts:
        printed["hosts"] = {family: [row.as_json() for row in rows] for family, rows in hosts.items()}
        printed["not_installed"] = peers.missing
    write_output(output, printed)
    if args.json:
        print_json(printed)
    else:
        screen = open_screen()
        for result in results:
            _print_result(screen, result, hosts=hosts.get(result.family, ()))
    return 0


def _print_result(screen: Screen, result: Retained, *, hosts: Sequence[HostRow]) -> None:
    screen.write(
        ("bench retention", "bold"), f"  {result.family}, {result.plan.name}, seed {result.seed}, {result.seconds:.0f} s"
    )
    for line in list_facts(result):
        screen.write(line, indent=2)
    through = [build_hosts_table(hosts, hops=result.plan.hops, sessions=result.plan.seeds)] if hosts else []
    print_tables(screen, [*build_tables(result), *through])
    print_targets(screen, result.targets)
