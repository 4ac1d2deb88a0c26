"""`python -m benchmarks compaction`: what planning, merging and auditing cost."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.compaction.run import FULL, PLAIN, QUICK, run_compaction
from benchmarks.tables import target_rows
from threadkeep.cli.output import open_screen, print_json
from threadkeep.errors import BadInput

if TYPE_CHECKING:
    from benchmarks.compaction.run import Compacted
    from threadkeep.cli.screen import Part, Screen

_STYLES = {"met": "green", "missed": "bold red", "not told": "yellow"}


def run(args: Namespace) -> int:
    """Measure, say on stderr what is being measured, and print the figures. A missed target is a finding, not a failure."""
    output = None if args.output is None else Path(args.output)
    if output is not None and not output.parent.is_dir():
        raise BadInput(f"there is no folder {str(output.parent)!r} to write {output.name!r} into")
    result = run_compaction(FULL if args.full else QUICK, seed=args.seed, say=_say)
    if output is not None:
        output.write_bytes(msgspec.json.encode(result.as_json()) + b"\n")
    if args.json:
        print_json(result.as_json())
    else:
        _tell(open_screen(), result)
    return 0


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


def _tell(screen: Screen, result: Compacted) -> None:
    screen.line(("bench compaction", "bold"), f"  {result.plan.name}, seed {result.seed}, {result.seconds:.0f} s")
    screen.line(result.machine, indent=2)
    screen.heading("Figures", "the plain pass decodes the same items and cuts them into words")
    screen.table(["", ">threadkeep", ">plain pass"], _rows(result), indent=2)
    screen.heading("Targets", "not told where the run is too short for the bound")
    targets: list[list[Part]] = [
        [(verdict, _STYLES[verdict]), found, bound, what] for verdict, found, bound, what in target_rows(result.targets)
    ]
    screen.table(["", "found", "bound", "what"], targets, indent=2)


def _rows(result: Compacted) -> list[list[Part]]:
    """Return a row for each measure: ours, and the plain pass's where it takes part."""
    lines: dict[str, dict[str, str]] = {}
    for figure in result.figures:
        value = figure.value
        spread = f" ({_number(value.low)}–{_number(value.high)})" if value.samples > 1 else ""
        line = lines.setdefault(f"{figure.measure}, {figure.unit}", {})
        line[figure.contender] = f"{_number(value.median)}{spread}"
    return [[measure, line.get("threadkeep", "–"), line.get(PLAIN, "")] for measure, line in lines.items()]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
