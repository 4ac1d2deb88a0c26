"""`holdfast threads`: what is in the store."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from holdfast.cli.figures import ago, count
from holdfast.cli.opening import is_there, settings_of, store_name, store_path
from holdfast.cli.output import open_screen, print_json
from holdfast.runtime import Config, Holdfast, ThreadSummary, config_of
from holdfast.runtime.locations import is_file

if TYPE_CHECKING:
    from holdfast.cli.screen import Part, Screen


def run(args: Namespace) -> int:
    """List the threads. A store that is not there yet has none, and is not made by looking."""
    config = config_of(settings_of(args))
    there = not is_file(config.store) or is_there(store_path(config))
    threads = asyncio.run(_list(config, limit=args.limit, archived=args.archived)) if there else []
    if args.json:
        print_json({"threads": threads})
    elif threads:
        _tell(open_screen(), threads, limit=args.limit)
    else:
        open_screen().line(
            f"no threads in {store_name(config)} yet; `holdfast serve` records those of an agent that talks through it"
        )
    return 0


async def _list(config: Config, *, limit: int, archived: bool) -> list[ThreadSummary]:
    async with Holdfast(config) as hf:
        return await hf.threads(limit=limit, archived=archived)


def _tell(screen: Screen, threads: list[ThreadSummary], *, limit: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    rows: list[list[Part]] = [
        [
            (thread.id, "bold"),
            (ago(thread.updated_at_ms, now_ms=now_ms), "dim"),
            f"{thread.turns:,}",
            f"{thread.records:,}",
            f"{thread.checkpoints:,}",
            f"{thread.tokens:,}",
            f"{f'(fork of {thread.parent}) ' if thread.parent else ''}{thread.title}",
        ]
        for thread in threads
    ]
    screen.table(["thread", "written", ">turns", ">records", ">compactions", ">tokens", "title"], rows)
    if len(threads) == limit:
        screen.line((f"the newest {count(limit, 'thread')}; --limit {limit * 2} shows more, if there are more", "dim"))
