"""`threadkeep copy`: threads from one store to another."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.cli.cleaning import one_line
from threadkeep.cli.figures import count
from threadkeep.cli.opening import is_there, settings_of, without_password
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import build_config
from threadkeep.errors import BadInput, StoreMissing
from threadkeep.store.base import FullStore
from threadkeep.store.locations import IN_MEMORY, is_file, open_database, parse_sqlite_path
from threadkeep.threads.backend import SystemClock
from threadkeep.transfer.store_copy import CopiedThread, CopyProgress, copy_threads

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part

# A line of progress for every so many records of a thread.
TOLD_EVERY = 10_000


def run(args: Namespace) -> int:
    """Copy, and say what was copied. What was copied before is compared and left as it is."""
    copied = asyncio.run(_copy(args))
    new = sum(thread.copied for thread in copied)
    if args.json:
        print_json({"threads": copied, "records": sum(thread.records for thread in copied), "copied": new})
        return 0
    screen = open_screen()
    rows: list[list[Part]] = [
        [
            (thread.id, "bold"),
            f"{thread.records:,}",
            (f"{thread.copied:,}", "green" if thread.copied else "dim"),
            f"{thread.erased:,}",
        ]
        for thread in copied
    ]
    if rows:
        screen.table(["thread", ">records", ">copied", ">erased"], rows)
    screen.line(f"{count(len(copied), 'thread')}: {count(new, 'record')} copied, every digest compared")
    return 0


async def _copy(args: Namespace) -> list[CopiedThread]:
    if IN_MEMORY in (args.source, args.target):
        raise BadInput("a store in memory ends with its process; name a path or postgresql://… to copy from and to")
    if is_file(args.source) and not is_there(path := parse_sqlite_path(args.source)):
        raise StoreMissing(str(path))
    if is_file(args.source) and is_file(args.target) and _same(parse_sqlite_path(args.source), parse_sqlite_path(args.target)):
        raise BadInput("this is one store, not two; name another to copy to")
    tenant = args.tenant or build_config(settings_of(args)).tenant
    source = await _known(args.source, tenant)
    try:
        target = await (await open_database(args.target)).open_tenant(tenant, key=source.tenant.key)
        try:
            return await copy_threads(source, target, only=args.threads, told=_tell, at_ms=SystemClock().now_ms())
        finally:
            await target.close()
    finally:
        await source.close()


async def _known(location: str, tenant: str) -> FullStore:
    """Return a tenant's store that is there already: asked for by a mistyped name, one would be made.

    Raises:
        BadInput: There is no such tenant.
    """
    database = await open_database(location)
    if await database.has_tenant(tenant):
        return await database.open_tenant(tenant)
    await database.close()
    raise BadInput(f"{without_password(location)} has no tenant called {tenant!r}; nothing was copied, name another by --tenant")


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, whatever they are called: opened under two names, SQLite would damage it."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()


def _tell(progress: CopyProgress) -> None:
    if progress.done == progress.records or progress.done % TOLD_EVERY == 0:
        print(
            f"threadkeep: {progress.number:,} of {progress.threads:,}: {one_line(progress.thread)}, "
            f"{progress.done:,} of {progress.records:,} records",
            file=sys.stderr,
        )
