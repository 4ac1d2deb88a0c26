"""`threadkeep threads`: the list of threads, newest first."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.settings import read_config
from threadkeep.cli.store import describe_store, may_have_store
from threadkeep.store.locations import open_database
from threadkeep.threads.summary import ThreadSummary, summarise_threads
from threadkeep.viewer.number_format import format_age, format_count

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Part, Screen

# As much of a title as is needed to recognise it.
TITLE_CELLS = 32
GAP = 2
DROPPED_FIRST = (">records", ">compactions", ">turns", "written", ">tokens")


async def run(args: Namespace) -> None:
    """List the threads. A store that is not there has none, and is not made."""
    config = read_config(args)
    threads: list[ThreadSummary] = []
    if may_have_store(config):
        # Not through the facade: a list needs nothing of what compacts or asks models, and is there in half the time.
        database = await open_database(config.store, listen=config.store_listen)
        try:
            store = await database.open_tenant(config.tenant)
            threads = await summarise_threads(store, limit=args.limit, archived=args.archived)
        finally:
            await database.close()
    if args.json:
        print_json({"threads": threads})
    elif threads:
        _print_threads(open_screen(), threads, limit=args.limit)
    else:
        open_screen().write(f"no threads in {describe_store(config)} yet; `threadkeep run CLIENT` records a client's sessions")


def _print_threads(screen: Screen, threads: list[ThreadSummary], *, limit: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    columns: dict[str, list[Part]] = {
        "thread": [(thread.id, "bold") for thread in threads],
        "written": [(format_age(thread.updated_at_ms, now_ms), "dim") for thread in threads],
        ">turns": [f"{thread.turns:,}" for thread in threads],
        ">records": [f"{thread.records:,}" for thread in threads],
        ">compactions": [f"{thread.checkpoints:,}" for thread in threads],
        ">tokens": [f"{thread.tokens:,}" for thread in threads],
        "title": [f"{f'(fork of {thread.parent}) ' if thread.parent else ''}{thread.title}" for thread in threads],
    }
    shown = _choose_columns({name: _measure(name, cells) for name, cells in columns.items()}, width=screen.console.width)
    screen.write_table(shown, list(zip(*(columns[name] for name in shown), strict=True)))
    if len(threads) == limit:
        screen.write((f"the newest {format_count(limit, 'thread')}; --limit {limit * 2} shows more, if there are more", "dim"))


def _choose_columns(widths: Mapping[str, int], *, width: int) -> list[str]:
    """Return the columns a terminal has room for beside a readable title; the least telling ones are dropped first."""
    shown = list(widths)
    for name in DROPPED_FIRST:
        taken = sum(widths[each] + GAP for each in shown if each != "title")
        if width - taken >= min(widths["title"], TITLE_CELLS):
            break
        shown.remove(name)
    return shown


def _measure(name: str, cells: Sequence[Part]) -> int:
    texts = [cell if isinstance(cell, str) else cell[0] for cell in cells]
    return max(map(len, (name.removeprefix(">"), *texts)))
