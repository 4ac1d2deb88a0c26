"""`holdfast show`: one thread, looked at from six sides."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from holdfast.cli.family import show_family
from holdfast.cli.opening import existing_store
from holdfast.cli.overview import show_overview
from holdfast.cli.plot import show_plot
from holdfast.cli.records import show_records
from holdfast.cli.state import show_state
from holdfast.cli.window import show_window


def run(args: Namespace) -> int:
    """Show what was asked for: unless a side is named, an overview for people and the window for machines."""
    return asyncio.run(_show(args))


async def _show(args: Namespace) -> int:
    async with existing_store(args) as hf:
        thread = await hf.find(args.thread)
        match args.look:
            case "records":
                await show_records(hf, thread, as_json=args.json)
            case "state":
                await show_state(thread, as_json=args.json)
            case "tree":
                await show_family(hf, thread, as_json=args.json)
            case "plot":
                await show_plot(hf, thread, as_json=args.json)
            case None if not args.json:
                await show_overview(hf, thread)
            case _:
                await show_window(hf, thread, as_json=args.json)
    return 0
