"""`threadkeep recall`: find original records."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import TYPE_CHECKING

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.store import open_existing_store
from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import InvalidPointer
from threadkeep.recall import Recalled
from threadkeep.threads import parse_pointer

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Screen

# Shorter words would mark half of every line.
SHORTEST_MARKED = 3


async def run(args: Namespace) -> None:
    """Find records by their words or by pointer; no hit is no failure."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        query = await _complete_pointer(tk, thread, " ".join(args.query))
        hits = await thread.recall(query, limit=args.limit)
    if args.json:
        print_json(
            {"hits": [{"pointer": str(hit.pointer), "text": hit.text, "score": hit.score, "kind": hit.kind} for hit in hits]}
        )
    else:
        _print_hits(open_screen(), thread, hits, query=query)


async def _complete_pointer(tk: Threadkeep, thread: Thread, query: str) -> str:
    """Return a pointer with its thread's whole id; any other query as it is."""
    try:
        pointer = parse_pointer(query, within=thread.id)
    except InvalidPointer:
        return query
    return f"{(await tk.find(pointer.thread_id)).id}#{pointer.ordinal}"


def _print_hits(screen: Screen, thread: Thread, hits: list[Recalled], *, query: str) -> None:
    if not hits:
        screen.write(f"no record of {thread.id} has any of these words; try others")
    words = sorted({word for word in re.findall(r"\w+", query) if len(word) >= SHORTEST_MARKED}, key=len, reverse=True)
    for number, hit in enumerate(hits):
        if number:
            screen.skip_line()
        screen.write((str(hit.pointer), "bold cyan"), (f"  {hit.kind.value}, score {hit.score:g}", "dim"))
        screen.write_quote(hit.text, words=words)
