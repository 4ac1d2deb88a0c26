"""`threadkeep threads`: what is in the store."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from threadkeep.cli.figures import ago, count
from threadkeep.cli.opening import is_there, settings_of, store_name, store_path
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Config, Threadkeep, ThreadSummary, build_config
from threadkeep.store.locations import is_file

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

# What a title needs to be recognised by; `--json` has every column at any width.
TITLE_CELLS = 32
GAP = 2
LEFT_OUT_FIRST = (">records", ">compactions", ">turns", "written", ">tokens")


def run(args: Namespace) -> int:
    """List the threads. A store that is not there yet has none, and is not made by looking."""
    config = build_config(settings_of(args))
    there = not is_file(config.store) or is_there(store_path(config))
    threads = asyncio.run(_list(config, limit=args.limit, archived=args.archived)) if there else []
    if args.json:
        print_json({"threads": threads})
    elif threads:
        _tell(open_screen(), threads, limit=args.limit)
    else:
        open_screen().line(
            f"no threads in {store_name(config)} yet; `threadkeep serve` records those of an agent that talks through it"
        )
    return 0


async def _list(config: Config, *, limit: int, archived: bool) -> list[ThreadSummary]:
    async with Threadkeep(config) as tk:
        return await tk.threads(limit=limit, archived=archived)


def _tell(screen: Screen, threads: list[ThreadSummary], *, limit: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    columns: dict[str, list[Part]] = {
        "thread": [(thread.id, "bold") for thread in threads],
        "written": [(ago(thread.updated_at_ms, now_ms=now_ms), "dim") for thread in threads],
        ">turns": [f"{thread.turns:,}" for thread in threads],
        ">records": [f"{thread.records:,}" for thread in threads],
        ">compactions": [f"{thread.checkpoints:,}" for thread in threads],
        ">tokens": [f"{thread.tokens:,}" for thread in threads],
        "title": [f"{f'(fork of {thread.parent}) ' if thread.parent else ''}{thread.title}" for thread in threads],
    }
    shown = columns_for({name: _width(name, cells) for name, cells in columns.items()}, width=screen.console.width)
    screen.table(shown, list(zip(*(columns[name] for name in shown), strict=True)))
    if len(threads) == limit:
        screen.line((f"the newest {count(limit, 'thread')}; --limit {limit * 2} shows more, if there are more", "dim"))


def columns_for(widths: Mapping[str, int], *, width: int) -> list[str]:
    """Return the columns a terminal has room for, so that a title can be read: what tells least is left out first."""
    shown = list(widths)
    for name in LEFT_OUT_FIRST:
        taken = sum(widths[each] + GAP for each in shown if each != "title")
        if width - taken >= min(widths["title"], TITLE_CELLS):
            break
        shown.remove(name)
    return shown


def _width(name: str, cells: Sequence[Part]) -> int:
    texts = [cell if isinstance(cell, str) else cell[0] for cell in cells]
    return max(map(len, (name.removeprefix(">"), *texts)))
