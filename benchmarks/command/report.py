"""`python -m benchmarks report`: everything in one run, the design's bounds beside what was found."""

from __future__ import annotations

from argparse import Namespace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from benchmarks.command.console import STYLES, parse_proxies, say
from benchmarks.compactors.peer import parse_peer
from benchmarks.report.bounds import judge_bounds
from benchmarks.report.markdown import ELSEWHERE, find_differences, is_elsewhere, render_markdown, report_json
from benchmarks.report.origin import read_origin
from benchmarks.report.part import read_parts, write_part
from benchmarks.report.participants import list_participants
from benchmarks.report.run import FULL, MEASURES, QUICK, Asked, CannotRun, PartFailed, measure
from threadkeep.cli.output import open_screen, print_json
from threadkeep.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.report.bounds import Judged
    from benchmarks.report.origin import Origin
    from benchmarks.report.part import Part as ReportPart
    from benchmarks.report.run import Plan
    from threadkeep.cli.terminal import Part


def run(args: Namespace) -> int:
    """Measure part by part, keep each as soon as it is there, and write the report over all that the folder holds.

    A missed bound is a finding, not a failure. A part that breaks off is one: the report says how, the others are measured all
    the same, and the exit code is 1.
    """
    unknown = [name for name in args.part if name not in MEASURES]
    if unknown:
        raise BadInput(f"there is no part {unknown[0]!r}; there are {', '.join(MEASURES)}")
    if args.output is not None:
        return _write_report(args, Path(args.output))
    with TemporaryDirectory(prefix="threadkeep-report-") as folder:
        return _write_report(args, Path(folder))


def _write_report(args: Namespace, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    plan = FULL if args.full else QUICK
    names = [] if args.write_only else args.part or list(MEASURES)
    peers = list_participants([parse_peer(text) for text in args.peer])
    asked = Asked(seed=args.seed, peers=peers, proxies=parse_proxies(args.proxy))
    skipped, failed = _measure_parts(names, plan, asked, folder)
    parts = read_parts(folder)
    skipped |= {name: "not asked for" for name in MEASURES if name not in parts and name not in skipped}
    here = read_origin()
    (folder / "report.md").write_text(render_markdown(parts, skipped=skipped, here=here), encoding="utf-8")
    result = report_json(parts, skipped=skipped, here=here)
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    if args.json:
        print_json(result)
    else:
        _print_bounds(parts, here)
        if args.output is not None:
            say(f"wrote {folder / 'report.md'}")
    return 1 if failed else 0


def _measure_parts(names: Sequence[str], plan: Plan, asked: Asked, folder: Path) -> tuple[dict[str, str], bool]:
    """Measure part by part and write each; return those that were not, each with the reason, and whether one broke off."""
    skipped: dict[str, str] = {}
    failed = False
    for number, name in enumerate(names, start=1):
        say(f"part {number} of {len(names)}: {name}")
        try:
            write_part(measure(name, plan, asked=asked, say=say), folder)
        except CannotRun as reason:
            skipped[name] = str(reason)
            say(f"{name} is not run: {reason}")
        except (PartFailed, OSError) as reason:
            skipped[name], failed = f"failed: {reason}", True
            say(f"{name} failed: {reason}")
    return skipped, failed


def _print_bounds(parts: Mapping[str, ReportPart], here: Origin) -> None:
    """Print every bound below the row of the design's table that it is of; nothing is cut, however narrow the terminal."""
    screen = open_screen()
    screen.write_heading("The design's bounds", "ratios count, not seconds")
    marked = find_differences(parts, here)
    for row, lines in groupby(judge_bounds(parts), key=lambda line: line.row):
        screen.write((row, "bold"), indent=2)
        screen.write_entries([((f"  {line.verdict:<8}", STYLES[line.verdict]), _format_line(line, marked)) for line in lines])
    for name, differs in marked.items():
        screen.write(f"{ELSEWHERE} {name}: {'; '.join(differs)}", indent=2)


def _format_line(line: Judged, marked: Mapping[str, object]) -> list[Part]:
    mark = f" {ELSEWHERE}" if is_elsewhere(line, marked) else ""
    return [f"{line.what}: {line.found}", (f" (bound {line.bound}){mark}", "dim")]
