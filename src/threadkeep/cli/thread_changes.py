"""`threadkeep fork`, `rollback`, `undo`, `note`, `pin`, `unpin`, `archive` and `unarchive`: change one thread."""

from __future__ import annotations

import sys
from argparse import Namespace

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.state_output import print_entries, shorten_entry
from threadkeep.cli.store import open_existing_store
from threadkeep.client.json_output import encode_remark
from threadkeep.compaction.pins import NOTE_CHARS
from threadkeep.threads.forks_and_undos import ForkPoint, fork_thread
from threadkeep.viewer.number_format import format_count


async def fork(args: Namespace) -> None:
    """Begin a new thread at a place of another."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        place = ForkPoint(at=args.at, before_turn=args.before_turn, after_turn=args.after_turn)
        made = await fork_thread(tk.backend, thread.id, place, new_id=args.name)
        tokens = (await (await tk.find(made.thread)).history()).tokens
    if args.json:
        print_json({"thread": made.thread, "parent": made.parent, "at": made.at})
        return
    screen = open_screen()
    screen.write((made.thread, "bold green"), f"  begins at #{made.at} of {made.parent}, with {tokens:,} tokens in its window")
    screen.write(("nothing was copied; the two threads no longer affect each other", "dim"))


async def rollback(args: Namespace) -> None:
    """Take back the last turns."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        before = (await thread.history()).tokens
        made = await thread.rollback(turns=args.turns)
        after = (await thread.history()).tokens
    if args.json:
        print_json({"thread": made.thread, "parent": made.parent, "at": made.at})
        return
    screen = open_screen()
    turns, sizes = format_count(args.turns, "turn"), f"window {before:,} → {after:,} tokens"
    screen.write((made.thread, "bold"), f"  {turns} taken back; it goes on from before #{made.at}, {sizes}")
    screen.write(("nothing was removed: `show --records` lists it all, `undo --rollback` brings it back", "dim"))


async def undo(args: Namespace) -> None:
    """Take back the newest compaction, or the last rollback."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        before = (await thread.history()).tokens
        ordinal = await (thread.undo_rollback if args.rollback else thread.undo)()
        after = (await thread.history()).tokens
    what = "rollback" if args.rollback else "checkpoint"
    if args.json:
        print_json({"thread": thread.id, what: ordinal})
    else:
        open_screen().write((thread.id, "bold"), f"  {what} #{ordinal} was undone, window {before:,} → {after:,} tokens")


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


async def set_archived(args: Namespace) -> None:
    """Take threads out of the list, or put them back. A name that fits none, or several, changes nothing."""
    archived = args.command == "archive"
    async with open_existing_store(args) as tk:
        threads = [await tk.find(name) for name in args.threads]
        for thread in threads:
            await (thread.archive() if archived else thread.unarchive())
    if args.json:
        print_json({"threads": [{"id": thread.id, "archived": archived} for thread in threads]})
        return
    screen = open_screen()
    for thread in threads:
        screen.write((thread.id, "bold"), "  archived" if archived else "  back in the list")
