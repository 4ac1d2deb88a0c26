"""`threadkeep memory`: read idle threads, show, edit and forget what is remembered."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.store import open_existing_store
from threadkeep.cli.watch_loop import repeat_until_terminated
from threadkeep.errors import InvalidArgument, UnusableFile
from threadkeep.memory.memory import Memories
from threadkeep.memory.pipeline import MemoryPass
from threadkeep.viewer.number_format import format_count

WATCH_SECONDS = 60.0


async def run(args: Namespace) -> None:
    """Carry out one of `run show edit forget reset`."""
    async with open_existing_store(args) as tk:
        memories = tk.memory
        match args.action:
            case "run":
                await _extract(memories, watch=args.watch, as_json=args.json)
                return
            case "show":
                await _show(memories, " ".join(args.words), as_json=args.json)
                return
            case "edit":
                await _edit(memories, args.file)
            case "forget" if args.words:
                await memories.forget([(await tk.find(name)).id for name in args.words])
            case "forget":
                raise InvalidArgument("thread", "say which thread is to be forgotten: threadkeep memory forget THREAD")
            case _:
                await memories.reset()
        count = len((await memories.state()).memories)
    if args.json:
        print_json({"memories": count})
    else:
        open_screen().write(("ok", "bold green"), f"  {format_count(count, 'memory', 'memories')} kept")


async def _extract(memories: Memories, *, watch: bool, as_json: bool) -> None:
    _print_pass(await memories.run(), as_json=as_json)

    async def run_again() -> None:
        done = await memories.run()
        if done.extracted or done.empty or done.failed or done.polluted:
            _print_pass(done, as_json=as_json)

    if watch:
        await repeat_until_terminated(run_again, every_s=WATCH_SECONDS)


def _print_pass(done: MemoryPass, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    screen = open_screen()
    threads = format_count(done.extracted + done.empty, "thread")
    screen.write(("ok", "bold green"), f"  {threads} read, {format_count(done.memories, 'memory', 'memories')} kept")
    if done.polluted:
        screen.write((f"{format_count(done.polluted, 'thread')} skipped: they read text from outside", "dim"))
    if done.failed:
        screen.write((f"{format_count(done.failed, 'thread')} could not be read and will be tried again", "yellow"))


async def _show(memories: Memories, query: str, *, as_json: bool) -> None:
    state = await memories.state()
    found = await memories.search(query) if query else state.memories
    if as_json:
        print_json({"memories": found, "summary": await memories.summary(), "pending": sorted(state.pending)})
    elif query:
        screen = open_screen()
        if not found:
            screen.write("no memory has any of these words")
        for memory in found:
            screen.write((memory.id, "cyan"), f"  {memory.text}  ", (" ".join(memory.sources), "dim"))
    elif sys.stdout.isatty():
        open_screen().write_quote(await memories.page())
    else:
        # In a file it is a page that `edit --file` accepts.
        sys.stdout.write(await memories.page())


async def _edit(memories: Memories, file: str | None) -> None:
    """Take over a page from a file, from stdin as `-`, or from the person's editor."""
    if file == "-":
        await memories.edit(sys.stdin.read())
    elif file is not None:
        await memories.edit(_read(Path(file)))
    else:
        before = await memories.page()
        after = await asyncio.to_thread(_run_editor, before)
        if after != before:
            await memories.edit(after)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableFile(str(path), reason=f"cannot be read: {error}; nothing was changed") from error


def _run_editor(text: str) -> str:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidArgument(
            "file", "no editor is set; set EDITOR, or give the page as a file: threadkeep memory edit --file PAGE"
        )
    with tempfile.TemporaryDirectory(prefix="threadkeep-memory-") as folder:
        page = Path(folder) / "memory.md"
        page.write_text(text, encoding="utf-8")
        if subprocess.run([*shlex.split(editor), str(page)], check=False).returncode:
            raise InvalidArgument("file", f"the editor {editor!r} failed; nothing was changed, give the page by --file instead")
        return _read(page)
