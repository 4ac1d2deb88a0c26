"""`threadkeep fork`, `rollback` and `undo`: go on from somewhere else."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from threadkeep.cli.figures import count
from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.threads.branches import ForkPoint, fork_thread


def fork(args: Namespace) -> int:
    """Begin a new thread at a place of another."""
    return asyncio.run(_fork(args))


def rollback(args: Namespace) -> int:
    """Take back the last turns."""
    return asyncio.run(_rollback(args))


def undo(args: Namespace) -> int:
    """Take back the newest compaction, or the last rollback."""
    return asyncio.run(_undo(args))


async def _fork(args: Namespace) -> int:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        place = ForkPoint(at=args.at, before_turn=args.before_turn, after_turn=args.after_turn)
        made = await fork_thread(tk.backend, thread.id, place, new_id=args.name)
        tokens = (await (await tk.find(made.thread)).history()).tokens
    if args.json:
        print_json({"thread": made.thread, "parent": made.parent, "at": made.at})
        return 0
    screen = open_screen()
    screen.line((made.thread, "bold green"), f"  begins at #{made.at} of {made.parent}, with {tokens:,} tokens in its window")
    screen.line(("nothing was copied, and nothing that happens there changes the other", "dim"))
    return 0


async def _rollback(args: Namespace) -> int:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        before = (await thread.history()).tokens
        went = await thread.rollback(turns=args.turns)
        after = (await thread.history()).tokens
    if args.json:
        print_json({"thread": went.thread, "parent": went.parent, "at": went.at})
        return 0
    screen = open_screen()
    taken = count(args.turns, "turn")
    screen.line(
        (went.thread, "bold"),
        f"  {taken} taken back; it goes on from before #{went.at}, ",
        f"window {before:,} → {after:,} tokens",
    )
    screen.line(("nothing was removed: `show --records` lists what was left behind, `undo --rollback` brings it back", "dim"))
    return 0


async def _undo(args: Namespace) -> int:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        before = (await thread.history()).tokens
        ordinal = await (thread.undo_rollback if args.rollback else thread.undo)()
        after = (await thread.history()).tokens
    what = "rollback" if args.rollback else "checkpoint"
    if args.json:
        print_json({"thread": thread.id, what: ordinal})
        return 0
    open_screen().line((thread.id, "bold"), f"  {what} #{ordinal} no longer counts, window {before:,} → {after:,} tokens")
    return 0
