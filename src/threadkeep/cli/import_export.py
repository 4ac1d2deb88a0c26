"""`threadkeep import` and `export`: transcripts of other programs in, threads out."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.safe_text import clean, clean_line, escape_json
from threadkeep.cli.settings import read_config
from threadkeep.cli.store import open_existing_store
from threadkeep.cli.watch_loop import repeat_until_terminated
from threadkeep.client import Thread, Threadkeep
from threadkeep.dialects import RESPONSES
from threadkeep.errors import UnusableFile
from threadkeep.transfer.codex_rollouts import make_file_name
from threadkeep.transfer.export import ExportFormat, export_thread, load_codex_session
from threadkeep.transfer.importer import Importer, ImportReport, Progress
from threadkeep.viewer.number_format import format_count

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Part, Screen

PROBLEMS_SHOWN = 20
WATCH_SECONDS = 1.0
# A line of progress each time so much was read; a shorter file needs none.
PROGRESS_BYTES = 16 << 20
UUID_CHARS = 36
SUFFIXES: dict[str, str] = {ExportFormat.JSONL: ".jsonl", ExportFormat.MARKDOWN: ".md"}


async def run_import(args: Namespace) -> None:
    """Import files and folders. A store that is not there yet is created."""
    paths: list[Path] = args.paths
    form = None if args.format == "auto" else args.format
    async with Threadkeep(read_config(args)) as tk:
        importer = Importer(tk.backend, form=form, growing=args.watch)
        report = await importer.run(paths, progress=_make_progress())
        _print_report(report, as_json=args.json)

        async def import_new_items() -> None:
            report = await importer.run(paths)
            if any(thread.added for thread in report.threads) or report.problems:
                _print_report(report, as_json=args.json)

        if args.watch:
            await repeat_until_terminated(import_new_items, every_s=WATCH_SECONDS)


def _print_report(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        print_json({"threads": report.threads, "problems": report.problems})
        return
    screen = open_screen()
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
        screen.write_table(["thread", "dialect", ">items", ">new records", "from"], rows)
    grown = sum(1 for thread in report.threads if thread.added)
    screen.write(f"{format_count(len(report.threads), 'thread')}, {grown:,} with new records")
    if report.problems:
        _print_problems(screen, report)


def _print_problems(screen: Screen, report: ImportReport) -> None:
    in_lines = any(problem.line for problem in report.problems)
    kept = "; a line that could not be understood is kept as a note" if in_lines else ""
    screen.write((format_count(len(report.problems), "problem"), "yellow"), kept)
    for problem in report.problems[:PROBLEMS_SHOWN]:
        where = f"{Path(problem.source).name}:{problem.line}" if problem.line else Path(problem.source).name
        screen.write((where, "cyan"), f"  {clean_line(problem.text)}", indent=2)
    if len(report.problems) > PROBLEMS_SHOWN:
        screen.write((f"and {len(report.problems) - PROBLEMS_SHOWN:,} more; --json lists them all", "dim"), indent=2)


def _make_progress() -> Progress:
    """Return a function that prints a line of progress on stderr now and then."""
    shown: dict[Path, int] = {}

    def print_line(path: Path, read: int) -> None:
        if read - shown.get(path, 0) >= PROGRESS_BYTES:
            shown[path] = read
            print(f"threadkeep: {clean_line(path.name)}: {read >> 20} MB read", file=sys.stderr)

    return print_line


async def run_export(args: Namespace) -> None:
    """Write a thread to a file, or to standard output."""
    output: Path | None = args.output
    into_folder = output is not None and await asyncio.to_thread(output.is_dir)
    form: str = args.format
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        if output is None:
            await _write(sys.stdout.buffer, tk, thread, form, to_terminal=sys.stdout.isatty())
            return
        path = output / await _choose_name(tk, thread, form) if into_folder else output
        lines = await _write_file(path, tk, thread, form)
    if args.json:
        print_json({"thread": thread.id, "format": form, "output": str(path), "lines": lines})
        return
    screen = open_screen()
    screen.write((str(path), "bold"), f"  {format_count(lines, 'line')}")
    if form == ExportFormat.CODEX and into_folder:
        screen.write(("with this file in its sessions folder, Codex resumes the thread:", "dim"))
        screen.write(f"codex resume {path.stem[-UUID_CHARS:]}", indent=2)


async def _choose_name(tk: Threadkeep, thread: Thread, form: str) -> str:
    """Return the name of a file in a folder: the one its program would give it, else one that tells nothing of the thread."""
    if form == ExportFormat.CODEX and thread.dialect is RESPONSES:
        return make_file_name(await load_codex_session(tk.backend, thread))
    return f"thread{SUFFIXES.get(form, '.json')}"


async def _write_file(path: Path, tk: Threadkeep, thread: Thread, form: str) -> int:
    """Write a file whole or not at all, and return how many lines it has.

    Raises:
        UnusableFile: It cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as stream:
            lines = await _write(stream, tk, thread, form)
        partial.replace(path)
    except OSError as error:
        raise UnusableFile(repr(str(path)), reason=f"cannot be written: {error.strerror or error}; name another by -o") from error
    finally:
        with suppress(OSError):
            partial.unlink()
    return lines


async def _write(stream: BinaryIO, tk: Threadkeep, thread: Thread, form: str, *, to_terminal: bool = False) -> int:
    """Write a thread and return how many lines it has. A file gets every byte, a terminal nothing that it would obey."""
    lines = 0
    async for line in export_thread(tk.backend, thread, form):
        stream.write(_disarm(line, form) if to_terminal else line)
        lines += 1
    stream.flush()
    return lines


def _disarm(line: bytes, form: str) -> bytes:
    return clean(line.decode("utf-8", "replace")).encode() if form == ExportFormat.MARKDOWN else escape_json(line)
