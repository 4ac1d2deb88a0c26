"""`threadkeep archive` and `unarchive`: threads put away, and back."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json


def run(args: Namespace) -> int:
    """Put threads away."""
    return _told(args, asyncio.run(_archived(args, is_archived=True)), "put away")


def undo(args: Namespace) -> int:
    """Put threads back."""
    return _told(args, asyncio.run(_archived(args, is_archived=False)), "back in the list")


async def _archived(args: Namespace, *, is_archived: bool) -> list[dict[str, object]]:
    """Find every thread first, so that a name that fits none, or several, changes nothing."""
    async with existing_store(args) as tk:
        threads = [await tk.find(name) for name in args.threads]
        for thread in threads:
            await (thread.archive() if is_archived else thread.unarchive())
        return [{"id": thread.id, "archived": await thread.is_archived()} for thread in threads]


def _told(args: Namespace, threads: list[dict[str, object]], what: str) -> int:
    if args.json:
        print_json({"threads": threads})
        return 0
    screen = open_screen()
    for thread in threads:
        screen.line((str(thread["id"]), "bold"), f"  {what}")
    return 0
