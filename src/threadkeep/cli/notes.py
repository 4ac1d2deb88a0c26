"""`threadkeep note`, `pin` and `unpin`: what a person adds to the session state, and keeps in it."""

from __future__ import annotations

import sys
from argparse import Namespace

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.settings_and_store import open_existing_store
from threadkeep.cli.state import print_entries, shorten_entry
from threadkeep.client.json_forms import encode_remark
from threadkeep.compaction.pins import NOTE_CHARS


async def note(args: Namespace) -> None:
    """Write a note into a thread."""
    # One character more than is allowed is enough to be refused.
    text = sys.stdin.read(NOTE_CHARS + 1) if args.text == ["-"] else " ".join(args.text)
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        remark = await thread.note(text, pinned=args.pin)
    if args.json:
        print_json(encode_remark(remark))
        return
    screen = open_screen()
    screen.write((thread.id, "bold"), f"  noted as #{remark.record}")
    print_entries(screen, remark.entries)
    screen.write(("in the session state now, in the window from the next compaction on", "dim"))


async def set_pin(args: Namespace) -> None:
    """Pin an entry, or unpin it."""
    pinned = args.command == "pin"
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        remark = await (thread.pin if pinned else thread.unpin)(args.entry)
    if args.json:
        print_json(encode_remark(remark))
        return
    entry = remark.entries[0]
    already = "already " if remark.record is None else ""
    screen = open_screen()
    screen.write((thread.id, "bold"), f"  entry {entry.id} is {already}{'' if pinned else 'un'}pinned: ", shorten_entry(entry))
    if pinned:
        screen.write(("it stays in the session state through every compaction, until `threadkeep unpin`", "dim"))
