"""`threadkeep verify`, `copy`, `migrate`, `erase` and `takeout`: look after a store and the data in it."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.safe_text import clean_line
from threadkeep.cli.settings import read_config
from threadkeep.cli.store import describe_store, hide_credentials, may_exist, open_existing_store, open_keys
from threadkeep.erasure.erase import erase, plan_erasure
from threadkeep.erasure.takeout import take_out
from threadkeep.errors import InvalidArgument, MissingExtra, StoreMissing
from threadkeep.store.base import FullStore
from threadkeep.store.locations import IN_MEMORY, is_file, open_database, parse_sqlite_path
from threadkeep.threads.backend import SystemClock
from threadkeep.transfer.store_copy import CopiedThread, CopyProgress, copy_threads
from threadkeep.viewer.number_format import format_count

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Part

# A line of progress after so many records of a thread.
PROGRESS_RECORDS = 10_000


async def run_verify(args: Namespace) -> int:
    """Check one thread or all; 1 when something is wrong."""
    async with open_existing_store(args) as tk:
        verdict = await tk.verify(None if args.thread is None else await tk.find(args.thread))
    checked = f"{format_count(verdict.threads, 'thread')}, {format_count(verdict.records, 'record')}"
    if args.json:
        problems = [{"pointer": str(found.pointer), "code": found.code, "text": found.text} for found in verdict.problems]
        print_json({"ok": verdict.ok, "threads": verdict.threads, "records": verdict.records, "problems": problems})
    elif verdict.ok:
        open_screen().write(("ok", "bold green"), f"  {checked}: every digest, ordinal, pair and pointer is right")
    else:
        screen = open_screen()
        screen.write((format_count(len(verdict.problems), "problem"), "bold red"), f" in {checked}")
        screen.skip_line()
        rows: list[list[Part]] = [[(str(found.pointer), "cyan"), (found.code, "red"), found.text] for found in verdict.problems]
        screen.write_table(["record", "problem", "what is wrong"], rows)
    return 0 if verdict.ok else 1


async def run_migrate(args: Namespace) -> None:
    """Run the migrations that are missing. Opening a file does all of them; a server's schema moves in two steps."""
    config = read_config(args)
    applied, pending = await _migrate(args, config.store)
    if args.json:
        print_json({"store": describe_store(config), "applied": applied, "pending": pending})
        return
    screen = open_screen()
    done = f"ran {', '.join(map(str, applied))}" if applied else "nothing was missing"
    screen.write(("ok", "bold green"), f"  {describe_store(config)}: {done}")
    if pending:
        waiting = ", ".join(map(str, pending))
        screen.write((f"{waiting} must wait until no older threadkeep runs: then run `threadkeep migrate --post`", "yellow"))


async def _migrate(args: Namespace, store: str) -> tuple[list[int], list[int]]:
    if is_file(store):
        async with open_existing_store(args):
            return [], []
    try:
        from threadkeep.store.postgres import migrate_database
    except ImportError as error:
        raise MissingExtra("a PostgreSQL store", extra="postgres") from error
    ran = await migrate_database(store, post=args.post)
    return list(ran.applied), list(ran.pending)


async def run_copy(args: Namespace) -> None:
    """Copy threads to another store. Threads copied before are compared and only continued."""
    copied = await _copy(args)
    new = sum(thread.copied for thread in copied)
    if args.json:
        print_json({"threads": copied, "records": sum(thread.records for thread in copied), "copied": new})
        return
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
        screen.write_table(["thread", ">records", ">copied", ">erased"], rows)
    screen.write(f"{format_count(len(copied), 'thread')}: {format_count(new, 'record')} copied, every digest compared")


async def _copy(args: Namespace) -> list[CopiedThread]:
    if IN_MEMORY in (args.source, args.target):
        raise InvalidArgument(
            "store", "a store in memory ends with its process; name a path or postgresql://… to copy from and to"
        )
    if is_file(args.source) and not may_exist(path := parse_sqlite_path(args.source)):
        raise StoreMissing(str(path))
    if is_file(args.source) and is_file(args.target) and _is_same(parse_sqlite_path(args.source), parse_sqlite_path(args.target)):
        raise InvalidArgument("target", "both names lead to the same store; name another to copy to")
    tenant = args.tenant or read_config(args).tenant
    source = await _open_tenant(args.source, tenant)
    try:
        target = await (await open_database(args.target)).open_tenant(tenant, key=source.tenant.key)
        try:
            return await copy_threads(source, target, only=args.threads, told=_print_progress, at_ms=SystemClock().now_ms())
        finally:
            await target.close()
    finally:
        await source.close()


async def _open_tenant(location: str, tenant: str) -> FullStore:
    """Return the store of a tenant that exists; a mistyped name must not create one.

    Raises:
        InvalidArgument: There is no such tenant.
    """
    database = await open_database(location)
    if await database.has_tenant(tenant):
        return await database.open_tenant(tenant)
    await database.close()
    text = f"{hide_credentials(location)} has no tenant called {tenant!r}; nothing was copied, name another by --tenant"
    raise InvalidArgument("tenant", text)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file: opened under two names, SQLite would damage it."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()


def _print_progress(progress: CopyProgress) -> None:
    if progress.done == progress.records or progress.done % PROGRESS_RECORDS == 0:
        place = f"{progress.number:,} of {progress.threads:,}: {clean_line(progress.thread)}"
        print(f"threadkeep: {place}, {progress.done:,} of {progress.records:,} records", file=sys.stderr)


async def run_erase(args: Namespace) -> None:
    """Say what would be erased, and with `--yes` erase it."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        plan = await plan_erasure(tk.backend, thread.id, args.ordinals or None)

        async def recompact(thread_id: str) -> object:
            return await (await tk.find(thread_id)).compact(strategy="extractive")

        report = await erase(tk.backend, plan, reason=args.reason, memories=tk.memory, recompact=recompact) if args.yes else None
    if args.json:
        print_json({"plan": plan, "done": report})
        return
    screen = open_screen()
    checkpoints = format_count(sum(map(len, plan.checkpoints.values())), "checkpoint")
    screen.write(f"{format_count(len(plan.ordinals), 'record')} of {plan.thread}, {checkpoints} made from them")
    if report is None:
        screen.write(("nothing was erased; --yes erases it for good", "yellow"))
    else:
        screen.write(("erased", "bold green"), f"  {format_count(report.records, 'record')}; noted in {plan.thread}")


async def run_takeout(args: Namespace) -> None:
    """Write everything about a tenant into a new folder."""
    config = read_config(args)
    keys = open_keys(config)
    async with open_existing_store(args) as tk:
        done = await take_out(tk.backend, args.output, keys=keys.list_digests(config.tenant) if keys else [])
    if args.json:
        print_json(done)
        return
    counts = (
        format_count(done.threads, "thread"),
        format_count(done.records, "record"),
        format_count(done.memories, "memory", "memories"),
        format_count(done.keys, "key"),
    )
    open_screen().write(("ok", "bold green"), f"  {', '.join(counts)} of tenant {done.tenant} in {done.folder}")
