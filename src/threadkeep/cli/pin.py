"""`threadkeep pin` and `unpin`: what must stay in the session state, and what need not any more."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.state import entry_json, words_of
from threadkeep.client import Remarked


def pin(args: Namespace) -> int:
    """Pin an entry."""
    return asyncio.run(_remark(args, pinned=True))


def unpin(args: Namespace) -> int:
    """Let go of a pinned entry."""
    return asyncio.run(_remark(args, pinned=False))


async def _remark(args: Namespace, *, pinned: bool) -> int:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        remarked = await (thread.pin if pinned else thread.unpin)(args.entry)
    if args.json:
        print_json(remarked_json(remarked))
        return 0
    entry = remarked.entries[0]
    became = "pinned" if pinned else "no longer pinned"
    already = "" if remarked.record is not None else " already"
    screen = open_screen()
    screen.line((thread.id, "bold"), f"  entry {entry.id} is {became}{already}: ", words_of(entry))
    if pinned:
        screen.line(("it stays in the session state through every compaction, until `threadkeep unpin`", "dim"))
    return 0


def remarked_json(remarked: Remarked) -> dict[str, object]:
    """Return a remark as `--json` has it: the record it made, null where nothing changed, and the entries it is about."""
    entries = [entry_json(entry) for entry in remarked.entries]
    return {"thread": remarked.thread, "record": remarked.record, "entries": entries}
