"""Making threads: those that several callers begin in one transaction are made by a handful of statements, like appends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.errors import ThreadExists, ThreadkeepError, ThreadNotFound
from threadkeep.store.base import NewRecord, NewThread
from threadkeep.store.postgres.appending import Placed, insert
from threadkeep.store.postgres.connections import Connection
from threadkeep.store.postgres.queries import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A thread one caller wants, and its first records."""

    thread: NewThread
    records: Sequence[NewRecord]


async def create_all(connection: Connection, wanted: Sequence[Creation], *, tenant: int) -> Sequence[ThreadkeepError | None]:
    """Make everyone's thread, and return for each None, or why nothing of it was written."""
    parents = await _numbers(connection, {each.thread.parent for each in wanted if each.thread.parent is not None})
    # Of two who want the same name at once the first has it.
    first: dict[str, Creation] = {}
    for each in wanted:
        if each.thread.parent is None or each.thread.parent in parents:
            first.setdefault(each.thread.id, each)
    made = await _add(connection, list(first.values()), parents=parents, tenant=tenant)
    outcomes: list[ThreadkeepError | None] = []
    for each in wanted:
        if each.thread.parent is not None and each.thread.parent not in parents:
            outcomes.append(ThreadNotFound(each.thread.parent))
        elif first[each.thread.id] is not each or each.thread.id not in made:
            outcomes.append(ThreadExists(each.thread.id))
        else:
            outcomes.append(None)
    new = [each for name, each in first.items() if name in made]
    placed = [Placed(thread=made[each.thread.id], first=each.thread.start, records=each.records) for each in new]
    await insert(connection, placed, tenant=tenant)
    return outcomes


async def _numbers(connection: Connection, names: set[str]) -> dict[str, int]:
    if not names:
        return {}
    rows = await (await connection.execute(QUERIES["find_threads"], {"names": sorted(names)})).fetchall()
    return {row[1]: row[0] for row in rows}


async def _add(connection: Connection, wanted: list[Creation], *, parents: dict[str, int], tenant: int) -> dict[str, int]:
    """Return the number of each thread that was not there before, by its name."""
    # In one order everywhere: two transactions that make the same threads must not wait for each other.
    threads = sorted((each.thread for each in wanted), key=lambda thread: thread.id)
    if not threads:
        return {}
    values = {
        "tenant": tenant,
        "names": [thread.id for thread in threads],
        "dialects": [thread.dialect for thread in threads],
        "created_at_ms": [thread.created_at_ms for thread in threads],
        "starts": [thread.start for thread in threads],
        "parents": [None if thread.parent is None else parents[thread.parent] for thread in threads],
    }
    return {name: number for number, name in await (await connection.execute(QUERIES["add_threads"], values)).fetchall()}
