"""`threadkeep verify`: prove the store, or say where it is wrong."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import TYPE_CHECKING

from threadkeep.cli.figures import count
from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Verdict

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen


def run(args: Namespace) -> int:
    """Check one thread or all; 1 when something is wrong."""
    verdict = asyncio.run(_verify(args))
    if args.json:
        problems = [{"pointer": str(found.pointer), "code": found.code, "text": found.text} for found in verdict.problems]
        print_json({"ok": verdict.ok, "threads": verdict.threads, "records": verdict.records, "problems": problems})
    else:
        _tell(open_screen(), verdict)
    return 0 if verdict.ok else 1


async def _verify(args: Namespace) -> Verdict:
    async with existing_store(args) as tk:
        thread = None if args.thread is None else await tk.find(args.thread)
        return await tk.verify(thread)


def _tell(screen: Screen, verdict: Verdict) -> None:
    looked = f"{count(verdict.threads, 'thread')}, {count(verdict.records, 'record')}"
    if verdict.ok:
        screen.line(("ok", "bold green"), f"  {looked}: every digest, ordinal, pair and pointer holds")
        return
    screen.line((count(len(verdict.problems), "problem"), "bold red"), f" in {looked}")
    screen.gap()
    rows: list[list[Part]] = [[(str(found.pointer), "cyan"), (found.code, "red"), found.text] for found in verdict.problems]
    screen.table(["record", "problem", "what is wrong"], rows)
