"""`holdfast note`: a person's own statement, beside the conversation."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

from holdfast.cli.opening import existing_store
from holdfast.cli.output import open_screen, print_json
from holdfast.cli.pin import remarked_json
from holdfast.cli.state import tell_entries
from holdfast.runtime.remarking import NOTE_CHARS


def run(args: Namespace) -> int:
    """Write a note into a thread."""
    return asyncio.run(_note(args))


async def _note(args: Namespace) -> int:
    # One character more than is allowed is enough to be refused.
    text = sys.stdin.read(NOTE_CHARS + 1) if args.text == ["-"] else " ".join(args.text)
    async with existing_store(args) as hf:
        thread = await hf.find(args.thread)
        remarked = await thread.note(text, pinned=args.pin)
    if args.json:
        print_json(remarked_json(remarked))
        return 0
    screen = open_screen()
    screen.line((thread.id, "bold"), f"  noted as #{remarked.record}")
    tell_entries(screen, remarked.entries)
    screen.line(("in the session state now, in the window from the next compaction on", "dim"))
    return 0
