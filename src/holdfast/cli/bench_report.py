"""`holdfast bench report`: everything in one run, the design's bounds beside what was found."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from holdfast.bench.compactors.peer import named_peer
from holdfast.bench.whole.design import judged
from holdfast.bench.whole.part import read_parts, write_part
from holdfast.bench.whole.plots import can_plot, write_plots
from holdfast.bench.whole.run import FULL, MEASURES, QUICK, Asked, CannotRun, measure
from holdfast.bench.whole.writing import markdown, report_json, this_machine
from holdfast.cli.bench_proxies import named_proxies
from holdfast.cli.output import open_screen, print_json
from holdfast.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.bench.whole.part import Part as ReportPart
    from holdfast.cli.screen import Part

_STYLES = {"met": "green", "missed": "bold red", "not told": "yellow", "not run": "yellow"}


def run(args: Namespace) -> int:
    """Measure part by part, keep each as soon as it is there, and write the report over all that the folder holds.

    A missed bound is a finding, not a failure.
    """
    unknown = [name for name in args.part if name not in MEASURES]
    if unknown:
        raise BadInput(f"there is no part {unknown[0]!r}; there are {', '.join(MEASURES)}")
    if args.output is not None:
        return _reported(args, Path(args.output))
    with TemporaryDirectory(prefix="holdfast-report-") as folder:
        return _reported(args, Path(folder))


def _reported(args: Namespace, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    plan = FULL if args.full else QUICK
    names = [] if args.write_only else args.part or list(MEASURES)
    peers = [named_peer(text) for text in args.peer]
    asked = Asked(seed=args.seed, peers=peers, proxies=named_proxies(args.proxy))
    skipped: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        _say(f"part {number} of {len(names)}: {name}")
        try:
            write_part(measure(name, plan, asked=asked, say=_say), folder)
        except CannotRun as reason:
            skipped[name] = str(reason)
            _say(f"{name} is not run: {reason}")
    parts = read_parts(folder)
    skipped |= {name: "not asked for" for name in MEASURES if name not in parts and name not in skipped}
    plots = write_plots(parts, folder) if can_plot() else []
    at = this_machine()
    (folder / "report.md").write_text(markdown(parts, skipped=skipped, plots=plots, at=at), encoding="utf-8")
    told = report_json(parts, skipped=skipped, at=at)
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
    if args.json:
        print_json(told)
    else:
        _tell(parts)
        if args.output is not None:
            _say(f"wrote {folder / 'report.md'}{'' if plots else '; no plots: matplotlib comes with the extra bench'}")
    return 0


def _tell(parts: Mapping[str, ReportPart]) -> None:
    screen = open_screen()
    screen.heading("The design's bounds", "ratios count, not seconds")
    rows: list[list[Part]] = [
        [(line.verdict, _STYLES[line.verdict]), line.found, line.bound, f"{line.row}: {line.what}"] for line in judged(parts)
    ]
    screen.table(["", "found", "bound", "what"], rows, indent=2)


def _say(text: str) -> None:
    print(f"holdfast bench: {text}", file=sys.stderr, flush=True)
