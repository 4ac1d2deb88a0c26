"""`threadkeep import`: transcripts of other programs in."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.cli.cleaning import one_line
from threadkeep.cli.figures import count
from threadkeep.cli.opening import settings_of
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.repetition import repeat_until_terminated
from threadkeep.client import Threadkeep, build_config
from threadkeep.transfer.importer import Importer, ImportReport, Progress

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

PROBLEMS_SHOWN = 20
WATCH_SECONDS = 1.0
# Where there is no terminal, a line for each of these; a shorter file needs none.
LINE_BYTES = 64 << 20


def run(args: Namespace) -> int:
    """Import files and folders. A store that is not there yet is created."""
    return asyncio.run(_import(args, [Path(path).expanduser() for path in args.paths]))


async def _import(args: Namespace, paths: list[Path]) -> int:
    form = None if args.format == "auto" else args.format
    async with Threadkeep(build_config(settings_of(args))) as tk:
        importer = Importer(tk.backend, form=form, growing=args.watch)
        with _progress() as progress:
            report = await importer.run(paths, progress=progress)
        _print(report, as_json=args.json)

        async def import_new_items() -> None:
            report = await importer.run(paths)
            if any(thread.added for thread in report.threads) or report.problems:
                _print(report, as_json=args.json)

        if args.watch:
            await repeat_until_terminated(import_new_items, every_s=WATCH_SECONDS)
    return 0


def _print(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        print_json({"threads": report.threads, "problems": report.problems})
    else:
        _tell(open_screen(), report)


def _tell(screen: Screen, report: ImportReport) -> None:
    rows: list[list[Part]] = [
        [
            (thread.id, "bold"),
            thread.dialect,
            f"{thread.items:,}",
            (f"{thread.added:,}", "green" if thread.added else "dim"),
            (Path(thread.source).name, "dim"),
        ]
        for thread in report.threads
    ]
    if rows:
        screen.table(["thread", "dialect", ">items", ">new records", "from"], rows)
    new = sum(1 for thread in report.threads if thread.added)
    screen.line(f"{count(len(report.threads), 'thread')}, {new:,} with something new")
    if report.problems:
        in_lines = any(problem.line for problem in report.problems)
        kept = "; a line that could not be understood is kept as a note" if in_lines else ""
        screen.line((count(len(report.problems), "problem"), "yellow"), kept)
        for problem in report.problems[:PROBLEMS_SHOWN]:
            where = f"{Path(problem.source).name}:{problem.line}" if problem.line else Path(problem.source).name
            screen.line((where, "cyan"), f"  {one_line(problem.text)}", indent=2)
        if len(report.problems) > PROBLEMS_SHOWN:
            screen.line((f"and {len(report.problems) - PROBLEMS_SHOWN:,} more; --json lists them all", "dim"), indent=2)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield where progress is told: a bar on a terminal, a line now and then in a log."""
    if sys.stderr.isatty():
        with _bar() as told:
            yield told
        return
    last: dict[Path, int] = {}

    def in_lines(path: Path, read: int) -> None:
        if read - last.get(path, 0) >= LINE_BYTES:
            last[path] = read
            print(f"threadkeep: {one_line(path.name)}: {read >> 20} MB read", file=sys.stderr)

    yield in_lines


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        current: Path | None = None

        def on_bar(path: Path, read: int) -> None:
            nonlocal current
            if path != current:
                current = path
                # How much a packed file holds is known at its end.
                size = None if path.suffix == ".zst" else path.stat().st_size
                shown.reset(task, description=one_line(path.name, limit=40), total=size)
            shown.update(task, completed=read)

        yield on_bar
