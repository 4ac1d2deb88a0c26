"""`threadkeep migrate`: bring a store's schema up to date."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from threadkeep.cli.opening import existing_store, settings_of, store_name
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import build_config
from threadkeep.errors import BadInput
from threadkeep.store.locations import is_file


def run(args: Namespace) -> int:
    """Run what is missing. A file is brought up to date by opening it; a server's schema moves in two steps."""
    config = build_config(settings_of(args))
    applied, pending = asyncio.run(_migrate(args, config.store))
    if args.json:
        print_json({"store": store_name(config), "applied": applied, "pending": pending})
        return 0
    screen = open_screen()
    done = f"ran {', '.join(map(str, applied))}" if applied else "nothing was missing"
    screen.line(("ok", "bold green"), f"  {store_name(config)}: {done}")
    if pending:
        waiting = ", ".join(map(str, pending))
        screen.line((f"{waiting} waits until no older threadkeep is left: then run `threadkeep migrate --post`", "yellow"))
    return 0


async def _migrate(args: Namespace, store: str) -> tuple[list[int], list[int]]:
    if is_file(store):
        async with existing_store(args):
            return [], []
    try:
        from threadkeep.store.postgres import migrate_database
    except ImportError as error:
        raise BadInput("a PostgreSQL store needs its driver; pip install 'threadkeep[postgres]'") from error
    ran = await migrate_database(store, post=args.post)
    return list(ran.applied), list(ran.pending)
