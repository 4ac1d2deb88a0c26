"""`threadkeep note`: a person's own statement, beside the conversation."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.pin import remarked_json
from threadkeep.cli.state import tell_entries
from threadkeep.compaction.pins import NOTE_CHARS


def run(args: Namespace) -> int:
    """Write a note into a thread."""
    return asyncio.run(_note(args))


async def _note(args: Namespace) -> int:
    # One character more than is allowed is enough to be refused.
    text = sys.stdin.read(NOTE_CHARS + 1) if args.text == ["-"] else " ".join(args.text)
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        remarked = await thread.note(text, pinned=args.pin)
    if args.json:
        print_json(remarked_json(remarked))
        return 0
    screen = open_screen()
    screen.line((thread.id, "bold"), f"  noted as #{remarked.record}")
    tell_entries(screen, remarked.entries)
    screen.line(("in the session state now, in the window from the next compaction on", "dim"))
    return 0
