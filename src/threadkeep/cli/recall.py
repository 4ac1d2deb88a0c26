"""`threadkeep recall`: originals back."""

from __future__ import annotations

import asyncio
import re
from argparse import Namespace
from typing import TYPE_CHECKING

from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import InvalidPointer
from threadkeep.recall import Recalled
from threadkeep.threads import parse_pointer

if TYPE_CHECKING:
    from threadkeep.cli.screen import Screen

# Words this short would mark half of every line.
SHORTEST_MARKED = 3


def run(args: Namespace) -> int:
    """Find records by their words or by pointer; nothing found is an answer too."""
    return asyncio.run(_recall(args))


async def _recall(args: Namespace) -> int:
    query = " ".join(args.query)
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        query = await _spelled_out(tk, thread, query)
        hits = await thread.recall(query, limit=args.limit)
    if args.json:
        found = [{"pointer": str(hit.pointer), "text": hit.text, "score": hit.score, "kind": hit.kind} for hit in hits]
        print_json({"hits": found})
    else:
        _tell(open_screen(), thread, hits, query=query)
    return 0


async def _spelled_out(tk: Threadkeep, thread: Thread, query: str) -> str:
    """Return a pointer with its thread's id in full; a query that is no pointer, as it is."""
    try:
        pointer = parse_pointer(query, within=thread.id)
    except InvalidPointer:
        return query
    named = await tk.find(pointer.thread_id)
    return f"{named.id}#{pointer.ordinal}"


def _tell(screen: Screen, thread: Thread, hits: list[Recalled], *, query: str) -> None:
    if not hits:
        screen.line(f"nothing in {thread.id} matches; any one word of the query would have been enough")
    words = sorted({word for word in re.findall(r"\w+", query) if len(word) >= SHORTEST_MARKED}, key=len, reverse=True)
    for number, hit in enumerate(hits):
        if number:
            screen.gap()
        screen.line((str(hit.pointer), "bold cyan"), (f"  {hit.kind.value}, score {hit.score:g}", "dim"))
        screen.quote(hit.text, words=words)
