"""`threadkeep show`: one thread, looked at from six sides."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from threadkeep.cli.family import show_family
from threadkeep.cli.opening import existing_store
from threadkeep.cli.overview import show_overview
from threadkeep.cli.plot import show_plot
from threadkeep.cli.records import show_records
from threadkeep.cli.state import show_state
from threadkeep.cli.window import show_window


def run(args: Namespace) -> int:
    """Show what was asked for: unless a side is named, an overview for people and the window for machines."""
    return asyncio.run(_show(args))


async def _show(args: Namespace) -> int:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        match args.look:
            case "records":
                await show_records(tk, thread, as_json=args.json)
            case "state":
                await show_state(thread, as_json=args.json)
            case "tree":
                await show_family(tk, thread, as_json=args.json)
            case "plot":
                await show_plot(tk, thread, as_json=args.json)
            case None if not args.json:
                await show_overview(tk, thread)
            case _:
                await show_window(tk, thread, as_json=args.json)
    return 0
