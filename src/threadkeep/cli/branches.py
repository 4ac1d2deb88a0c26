"""`threadkeep fork`, `rollback` and `undo`: go on from another place of a thread."""

from __future__ import annotations

from argparse import Namespace

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.settings_and_store import open_existing_store
from threadkeep.threads.branches import ForkPoint, fork_thread
from threadkeep.viewer.formats import format_count


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
