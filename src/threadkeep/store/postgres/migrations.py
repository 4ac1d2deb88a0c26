"""Migrations: bring a schema up to date while processes of the release before are still at work.

Opening a database runs the `pre` migrations it lacks; `threadkeep migrate --post` runs the `post` ones, once no older process is
left. An empty database has no older process and gets them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from psycopg.errors import LockNotAvailable

from threadkeep.errors import StoreError, StoreTooNew
from threadkeep.store.postgres.connections import Connection, Connections
from threadkeep.store.postgres.errors import name_postgres_error
from threadkeep.store.postgres.sql_files import QUERIES, SQL_FOLDER

# A reader that holds a table for longer than the lock timeout makes a migration step back and try again.
TRIES = 20
_FILE: Final = re.compile(r"(\d{4})_(pre|post)_\w+\.sql")

Phase = Literal["pre", "post"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema. `pre` only adds, so processes of the release before can go on; `post` removes what they needed."""

    version: int
    phase: Phase
    sql: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The migrations that were run, and those that wait until no older process is left."""

    applied: tuple[int, ...]
    pending: tuple[int, ...]


def _load_migrations() -> tuple[Migration, ...]:
    named = [(path, match) for path in sorted(SQL_FOLDER.glob("*.sql")) if (match := _FILE.fullmatch(path.name))]
    return tuple(Migration(version=int(match[1]), phase=cast("Phase", match[2]), sql=path.read_bytes()) for path, match in named)


MIGRATIONS: Final = _load_migrations()


async def migrate(connections: Connections, *, steps: Sequence[Migration] = MIGRATIONS, post: bool = False) -> Migrated:
    """Run the migrations a database lacks, in order, each in a transaction of its own.

    Args:
        post: Also those that older processes would not survive.

    Raises:
        StoreTooNew: A newer threadkeep removed something this one needs.
        StoreError: A needed `pre` migration comes after a `post` migration of an earlier release.
        StoreBusy: Others used a table the whole time; nothing of that step was done.
    """
    applied: list[int] = []
    while ran := await _run_next(connections, steps, post=post):
        applied.extend(ran)
    found = await connections.run(_read_applied)
    return Migrated(applied=tuple(applied), pending=tuple(step.version for step in steps if step.version not in found))


async def _run_next(connections: Connections, steps: Sequence[Migration], *, post: bool) -> Sequence[int]:
    async def work(connection: Connection) -> Sequence[int]:
        # Without the lock first: nearly always there is nothing to do, and a role that may not migrate can still open it.
        if not choose_next(await _read_applied(connection), steps, location=connections.location, post=post):
            return ()
        await connection.execute(QUERIES["lock_migrations"])
        found = await _read_applied(connection)
        if not found:
            await connection.execute(QUERIES["create_schema"])
            await connection.execute(QUERIES["create_migrations"])
        await connection.execute(QUERIES["use_schema"])
        chosen = choose_next(found, steps, location=connections.location, post=post)
        for step in chosen:
            await connection.execute(step.sql)
            await connection.execute(QUERIES["add_migration"], {"version": step.version, "phase": step.phase})
        return [step.version for step in chosen]

    for attempt in range(1, TRIES + 1):
        try:
            return await connections.attempt(work)
        except LockNotAvailable as busy:
            if attempt == TRIES:
                raise name_postgres_error(busy, location=connections.location) from busy
    raise AssertionError("the last try returns")


async def _read_applied(connection: Connection) -> Mapping[int, Phase]:
    row = await (await connection.execute(QUERIES["has_migrations"])).fetchone()
    if row is None or not row[0]:
        return {}
    return dict(await (await connection.execute(QUERIES["list_migrations"])).fetchall())


def choose_next(found: Mapping[int, Phase], steps: Sequence[Migration], *, location: str, post: bool) -> Sequence[Migration]:
    """Return the migrations to run next in one transaction: all of them on a new database, else at most one."""
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
