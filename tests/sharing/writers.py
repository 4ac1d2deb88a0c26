"""A process that writes to a store others write to, and says what was acknowledged and how long each call took.

    writers.py hook STORE NAME           opens the store, records one item on the thread `hooks`, exits
    writers.py linger STORE SECONDS      keeps the store open, records item after item, searches now and then
    writers.py command STORE ARGUMENT…   `threadkeep ARGUMENT… --json`, and on stderr when each of its writes began and ended
    writers.py stale STORE NAME          reads where the thread `contested` ends, waits for a line, appends there; told that it
                                         lost, it reads again and appends again

An acknowledgement is one line of JSON: `thread`, `text`, and when the call began and ended by the clock all processes share.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from threadkeep import Config, Threadkeep
from threadkeep.cli import main as threadkeep_command
from threadkeep.errors import OrdinalConflict
from threadkeep.store import NewRecord, RecordKind
from threadkeep.store.sqlite import SqliteStore

P = ParamSpec("P")
T = TypeVar("T")

ITEMS_A_THREAD = 100
SEARCH_EVERY = 20


def item(text: str) -> dict[str, object]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def acknowledge(thread: str, text: str, *, since: float) -> None:
    sys.stdout.write(json.dumps({"thread": thread, "text": text, "began": since, "ended": time.monotonic()}) + "\n")
    sys.stdout.flush()


async def hook(store: str, name: str) -> None:
    began = time.monotonic()
    async with Threadkeep(Config(store=store)) as tk:
        thread = await tk.thread("hooks")
        await thread.record([item(f"hook {name}")])
        acknowledge(thread.id, f"hook {name}", since=began)


async def linger(store: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    number = 0
    async with Threadkeep(Config(store=store)) as tk:
        while time.monotonic() < until:
            thread = await tk.thread(f"linger-{number // ITEMS_A_THREAD}")
            while time.monotonic() < until:
                text = f"lingering {number}"
                began = time.monotonic()
                await thread.record([item(text)])
                acknowledge(thread.id, text, since=began)
                number += 1
                if number % SEARCH_EVERY == 0:
                    await thread.recall(f"lingering {number - 1}")
                if number % ITEMS_A_THREAD == 0:
                    break


def command(store: str, arguments: list[str]) -> int:
    waits: list[tuple[float, float]] = []

    def timed(call: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        async def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            began = time.monotonic()
            try:
                return await call(*args, **kwargs)
            finally:
                waits.append((began, time.monotonic()))

        return measured

    for name in ("create", "append", "acquire", "release"):
        setattr(SqliteStore, name, timed(getattr(SqliteStore, name)))
    code = threadkeep_command([*arguments, "--json", "--store", store])
    sys.stderr.write(json.dumps(waits))
    return code


async def stale(store: str, name: str) -> None:
    record = NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=1, tokens=1, body=json.dumps(item(name)).encode())
    async with Threadkeep(Config(store=store)) as tk:
        port = tk.backend.store
        seen = (await port.get("contested")).next
        sys.stdout.write(f"{seen}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        try:
            await port.append("contested", [record], expected=seen)
            sys.stdout.write("won\n")
        except OrdinalConflict as conflict:
            sys.stdout.write(f"{conflict.code}: {conflict}\n")
            await port.append("contested", [record], expected=(await port.get("contested")).next)


if __name__ == "__main__":
    mode, store_path, *words = sys.argv[1:]
    match mode:
        case "hook":
            asyncio.run(hook(store_path, words[0]))
        case "linger":
            asyncio.run(linger(store_path, float(words[0])))
        case "stale":
            asyncio.run(stale(store_path, words[0]))
        case _:
            sys.exit(command(store_path, words))
