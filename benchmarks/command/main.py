"""`python -m benchmarks WHAT`: runs one measure and prints its figures."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence

from benchmarks.command import cases, report, retention
from benchmarks.command.arguments import add_measures
from benchmarks.command.measures import run_compaction, run_dataset_command, run_guard, run_store_or_gateway
from threadkeep.cli.output import print_error
from threadkeep.errors import ThreadkeepError

COMMANDS: dict[str, Callable[[Namespace], int]] = {
    "store": run_store_or_gateway,
    "retention": retention.run,
    "compaction": run_compaction,
    "gateway": run_store_or_gateway,
    "cases": cases.run,
    "dataset": run_dataset_command,
    "guard": run_guard,
    "report": report.run,
}


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
    """Run the measure that `args.what` names."""
    return COMMANDS[args.what](args)
