"""Bringing a schema up to date while processes of the release before are still at work.

A migration is `pre` or `post` (`Migration`). Opening a database runs the `pre` ones it lacks; the `post` ones are run by who
knows that no older process is left: `threadkeep migrate --post`. A database without any has no older process and gets them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.errors import LockNotAvailable

from threadkeep.errors import StoreError, StoreTooNew
from threadkeep.store.postgres.connections import Connection, Connections
from threadkeep.store.postgres.errors import from_postgres
from threadkeep.store.postgres.queries import MIGRATIONS, QUERIES, Migration, Phase

# A reader that holds a table for longer than the lock's patience makes a migration step back and try again.
TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What was run, and what waits until no older process is left."""

    applied: tuple[int, ...]
    pending: tuple[int, ...]


async def migrate(connections: Connections, *, steps: Sequence[Migration] = MIGRATIONS, post: bool = False) -> Migrated:
    """Run the migrations a database lacks, in order, each in a transaction of its own.

    Args:
        post: Also those that older processes would not survive.

    Raises:
        StoreTooNew: A newer threadkeep took away something this one needs.
        StoreError: One that is needed stands behind a `post` migration of an earlier release.
        StoreBusy: A table was in use by others the whole time; nothing of that step was done.
    """
    done: list[int] = []
    while True:
        ran = await _patiently(connections, steps, post=post)
        if not ran:
            break
        done.extend(ran)
    found = await connections.run(_applied)
    return Migrated(applied=tuple(done), pending=tuple(step.version for step in steps if step.version not in found))


async def _patiently(connections: Connections, steps: Sequence[Migration], *, post: bool) -> Sequence[int]:
    async def work(connection: Connection) -> Sequence[int]:
        # Looked at without the lock first: nearly always there is nothing to do, and who may not migrate can still open it.
        if not next_steps(await _applied(connection), steps, location=connections.location, post=post):
            return ()
        await connection.execute(QUERIES["wait_for_migrations"])
        found = await _applied(connection)
        return await _run(connection, next_steps(found, steps, location=connections.location, post=post), first=not found)

    for attempt in range(1, TRIES + 1):
        try:
            return await connections.attempt(work)
        except LockNotAvailable as busy:
            if attempt == TRIES:
                raise from_postgres(busy, location=connections.location) from busy
    raise AssertionError("the last try returns")


async def _run(connection: Connection, steps: Sequence[Migration], *, first: bool) -> Sequence[int]:
    if first:
        await connection.execute(QUERIES["begin_schema"])
        await connection.execute(QUERIES["begin_migrations"])
    await connection.execute(QUERIES["in_schema"])
    for step in steps:
        await connection.execute(step.sql)
        await connection.execute(QUERIES["note_migration"], {"version": step.version, "phase": step.phase})
    return [step.version for step in steps]


async def _applied(connection: Connection) -> Mapping[int, Phase]:
    there = await (await connection.execute(QUERIES["has_migrations"])).fetchone()
    if there is None or not there[0]:
        return {}
    return dict(await (await connection.execute(QUERIES["applied"])).fetchall())


def next_steps(found: Mapping[int, Phase], steps: Sequence[Migration], *, location: str, post: bool) -> Sequence[Migration]:
    """Return what to run now as one unit: everything on a new database, else the next step if there is one to run."""
    newest = max(step.version for step in steps)
    beyond = [version for version, phase in found.items() if phase == "post" and version > newest]
    if beyond:
        raise StoreTooNew(location, found=max(beyond), known=newest)
    missing = [step for step in steps if step.version not in found]
    if not found or not missing:
        return missing
    if post or missing[0].phase == "pre":
        return missing[:1]
    if any(step.phase == "pre" for step in missing):
        raise StoreError(
            location,
            f"migration {missing[0].version} is still to be run; stop every older threadkeep, then `threadkeep migrate --post`",
        )
    return ()
