"""`threadkeep export`: a thread out, as a file another program reads."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from threadkeep.cli.cleaning import clean, escaped_json
from threadkeep.cli.figures import count
from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread, Threadkeep
from threadkeep.dialects import RESPONSES
from threadkeep.errors import BadInput
from threadkeep.transfer.codex import make_file_name
from threadkeep.transfer.export import ExportFormat, export_thread, load_codex_session

UUID_CHARS = 36
SUFFIX: dict[str, str] = {ExportFormat.JSONL: ".jsonl", ExportFormat.MARKDOWN: ".md"}


def run(args: Namespace) -> int:
    """Write a thread to a file, or to standard output."""
    output = None if args.output is None else Path(args.output).expanduser()
    return asyncio.run(_export(args, output, into_folder=output is not None and output.is_dir()))


async def _export(args: Namespace, output: Path | None, *, into_folder: bool) -> int:
    form: str = args.format
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        if output is None:
            await _write(sys.stdout.buffer, tk, thread, form, to_terminal=sys.stdout.isatty())
            return 0
        path = output / await _name(tk, thread, form) if into_folder else output
        lines = await _write_whole(path, tk, thread, form)
    if args.json:
        print_json({"thread": thread.id, "format": form, "output": str(path), "lines": lines})
        return 0
    screen = open_screen()
    screen.line((str(path), "bold"), f"  {count(lines, 'line')}")
    if form == ExportFormat.CODEX and into_folder:
        screen.line(("in the folder of its sessions, Codex goes on with it:", "dim"))
        screen.line(f"codex resume {path.stem[-UUID_CHARS:]}", indent=2)
    return 0


async def _name(tk: Threadkeep, thread: Thread, form: str) -> str:
    """Return what a file in a folder is called: what its program would call it, else something that names nothing."""
    if form == ExportFormat.CODEX and thread.dialect is RESPONSES:
        return make_file_name(await load_codex_session(tk.backend, thread))
    return f"thread{SUFFIX.get(form, '.json')}"


async def _write_whole(path: Path, tk: Threadkeep, thread: Thread, form: str) -> int:
    """Write a file that is there whole or not at all.

    Raises:
        BadInput: It cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as stream:
            lines = await _write(stream, tk, thread, form)
        partial.replace(path)
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()
    return lines


async def _write(stream: BinaryIO, tk: Threadkeep, thread: Thread, form: str, *, to_terminal: bool = False) -> int:
    """Write a thread and return how many lines it has. A file gets every byte, a terminal nothing that it would obey."""
    lines = 0
    async for line in export_thread(tk.backend, thread, form):
        stream.write(_harmless(line, form) if to_terminal else line)
        lines += 1
    stream.flush()
    return lines


def _harmless(line: bytes, form: str) -> bytes:
    if form == ExportFormat.MARKDOWN:
        return clean(line.decode("utf-8", "replace")).encode()
    return escaped_json(line)
