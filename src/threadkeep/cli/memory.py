"""`threadkeep memory`: make it, look at it, change it, forget it."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from threadkeep.cli.figures import count
from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.repetition import repeat_until_terminated
from threadkeep.errors import BadInput
from threadkeep.memory.memory import Memories
from threadkeep.memory.pipeline import MemoryPass
from threadkeep.memory.records import Memory

WATCH_SECONDS = 60.0


def run(args: Namespace) -> int:
    """Carry out one of `run show search edit forget reset`."""
    return asyncio.run(_carried_out(args))


async def _carried_out(args: Namespace) -> int:
    async with existing_store(args) as tk:
        memories = tk.memory
        match args.action:
            case "run":
                await _run(memories, watch=args.watch, as_json=args.json)
            case "show":
                await _show(memories, args.words, as_json=args.json)
            case "edit":
                await _edit(memories, args.file)
            case "forget":
                await memories.forget([(await tk.find(name)).id for name in _named(args.words)])
            case _:
                await memories.reset()
        if args.action in ("edit", "forget", "reset"):
            _told(len((await memories.state()).memories), as_json=args.json)
    return 0


async def _run(memories: Memories, *, watch: bool, as_json: bool) -> None:
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
    read = done.extracted + done.empty
    screen = open_screen()
    screen.line(("ok", "bold green"), f"  {count(read, 'thread')} read, {count(done.memories, 'thing')} remembered")
    if done.polluted:
        screen.line((f"{count(done.polluted, 'thread')} left alone for what was read there", "dim"))
    if done.failed:
        screen.line((f"{count(done.failed, 'thread')} could not be read and will be tried again", "yellow"))


async def _show(memories: Memories, words: list[str], *, as_json: bool) -> None:
    query = " ".join(words)
    state = await memories.state()
    found = await memories.search(query) if query else state.memories
    if as_json:
        print_json({"memories": found, "summary": await memories.summary(), "pending": sorted(state.pending)})
    elif query:
        _list(found)
    elif sys.stdout.isatty():
        open_screen().quote(await memories.page())
    else:
        # As a file it is a page that `edit --file` takes again.
        sys.stdout.write(await memories.page())


def _list(found: list[Memory]) -> None:
    screen = open_screen()
    if not found:
        screen.line("nothing that is remembered says that")
    for memory in found:
        screen.line((memory.id, "cyan"), f"  {memory.text}  ", (" ".join(memory.sources), "dim"))


async def _edit(memories: Memories, file: str | None) -> None:
    """Take over a page from a file, from stdin as `-`, or from the person's editor."""
    if file == "-":
        await memories.edit(sys.stdin.read())
    elif file is not None:
        await memories.edit(_read(Path(file)))
    else:
        before = await memories.page()
        after = await asyncio.to_thread(_in_editor, before)
        if after != before:
            await memories.edit(after)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error


def _in_editor(text: str) -> str:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise BadInput("no editor is set; set EDITOR, or give the page as a file: threadkeep memory edit --file PAGE")
    with tempfile.TemporaryDirectory(prefix="threadkeep-memory-") as folder:
        page = Path(folder) / "memory.md"
        page.write_text(text, encoding="utf-8")
        if subprocess.run([*shlex.split(editor), str(page)], check=False).returncode:
            raise BadInput("the editor did not end well; nothing was changed")
        return _read(page)


def _named(words: list[str]) -> list[str]:
    if not words:
        raise BadInput("say which thread is to be forgotten: threadkeep memory forget THREAD")
    return words


def _told(memories: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"memories": memories})
    else:
        open_screen().line(("ok", "bold green"), f"  {count(memories, 'thing')} remembered")
