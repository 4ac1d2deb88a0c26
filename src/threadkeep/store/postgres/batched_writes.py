"""Creates threads and appends records for several callers in one transaction, with few statements for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from threadkeep.errors import OrdinalConflict, ThreadExists, ThreadkeepError, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store.base import NewRecord, NewThread, RecordKind
from threadkeep.store.postgres.connections import Connection
from threadkeep.store.postgres.sql_files import QUERIES

# The kinds another process may be waiting for. Notifying takes a lock of the whole server until the commit is on its disk: if
# every append did so, none could share its flush with another process's.
NOTIFIED = frozenset({RecordKind.MAIL, RecordKind.CHECKPOINT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A thread one caller wants, and its first records."""

    thread: NewThread
    records: Sequence[NewRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """What one caller wants at the end of one thread."""

    thread_id: str
    records: Sequence[NewRecord]
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Records and where they go: the thread's number and the first one's ordinal."""

    thread: int
    first: int
    records: Sequence[NewRecord]


async def create_all(connection: Connection, wanted: Sequence[Creation], *, tenant: int) -> Sequence[ThreadkeepError | None]:
    """Make each thread, and return for each None, or why nothing of it was written."""
    parents = await _find_numbers(connection, {each.thread.parent for each in wanted if each.thread.parent is not None})
    # Of two who want the same name at once the first has it.
    first: dict[str, Creation] = {}
    for each in wanted:
        if each.thread.parent is None or each.thread.parent in parents:
            first.setdefault(each.thread.id, each)
    made = await _add_threads(connection, [each.thread for each in first.values()], parents=parents, tenant=tenant)
    outcomes: list[ThreadkeepError | None] = []
    for each in wanted:
        if each.thread.parent is not None and each.thread.parent not in parents:
            outcomes.append(ThreadNotFound(each.thread.parent))
        elif first[each.thread.id] is not each or each.thread.id not in made:
            outcomes.append(ThreadExists(each.thread.id))
        else:
            outcomes.append(None)
    placed = [
        Placed(thread=made[name], first=each.thread.start, records=each.records) for name, each in first.items() if name in made
    ]
    await _insert(connection, placed, tenant=tenant)
    return outcomes


async def append_all(connection: Connection, wanted: Sequence[Append], *, tenant: int) -> Sequence[int | ThreadkeepError]:
    """Append for each caller, in order, and return each one's next ordinal, or why nothing of theirs was written."""
    ends = await _find_ends(connection, sorted({each.thread_id for each in wanted}))
    outcomes: list[int | ThreadkeepError] = []
    placed: list[Placed] = []
    for each in wanted:
        if each.thread_id not in ends:
            outcomes.append(ThreadNotFound(each.thread_id))
            continue
        thread, end = ends[each.thread_id]
        if end != each.expected:
            outcomes.append(OrdinalConflict(each.thread_id, expected=each.expected, actual=end))
            continue
        placed.append(Placed(thread=thread, first=end, records=each.records))
        ends[each.thread_id] = (thread, end + len(each.records))
        outcomes.append(end + len(each.records))
    await _insert(connection, placed, tenant=tenant)
    return outcomes


async def _find_numbers(connection: Connection, names: set[str]) -> dict[str, int]:
    if not names:
        return {}
    rows = await (await connection.execute(QUERIES["find_threads"], {"names": sorted(names)})).fetchall()
    return {row[1]: row[0] for row in rows}


async def _add_threads(
    connection: Connection, threads: Sequence[NewThread], *, parents: Mapping[str, int], tenant: int
) -> dict[str, int]:
    """Return the number of each thread that was not there before, by its name."""
    if not threads:
        return {}
    # In one order everywhere: two transactions that make the same threads must not wait for each other.
    threads = sorted(threads, key=lambda thread: thread.id)
    values = {
        "tenant": tenant,
        "names": [thread.id for thread in threads],
        "dialects": [thread.dialect for thread in threads],
        "created_at_ms": [thread.created_at_ms for thread in threads],
        "starts": [thread.start for thread in threads],
        "parents": [None if thread.parent is None else parents[thread.parent] for thread in threads],
    }
    return {name: number for number, name in await (await connection.execute(QUERIES["add_threads"], values)).fetchall()}


async def _find_ends(connection: Connection, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the number of each thread that is there, and the ordinal of its next record."""
    found = await (await connection.execute(QUERIES["find_threads"], {"names": names})).fetchall()
    if len(found) == 1:
        newest = await (await connection.execute(QUERIES["thread_end"], {"thread": found[0][0]})).fetchone()
        last: Mapping[int, int] = {} if newest is None else {found[0][0]: newest[0]}
    else:
        last = dict(await (await connection.execute(QUERIES["thread_ends"], {"threads": [row[0] for row in found]})).fetchall())
    return {name: (number, last[number] + 1 if number in last else start) for number, name, _, _, start, _ in found}


async def _insert(connection: Connection, placed: Sequence[Placed], *, tenant: int) -> None:
    """Insert records with their bodies; a body the tenant has is not written again."""
    rows = [
        (each.thread, ordinal, record, digest_body(record.body))
        for each in placed
        for ordinal, record in enumerate(each.records, start=each.first)
    ]
    if not rows:
        return
    bodies = await _hold_bodies(connection, {digest: record.body for _, _, record, digest in rows}, tenant=tenant)
    records = [record for _, _, record, _ in rows]
    await connection.execute(
        QUERIES["append_records"],
        {
            "tenant": tenant,
            "threads": [thread for thread, _, _, _ in rows],
            "ordinals": [ordinal for _, ordinal, _, _ in rows],
            "kinds": [str(record.kind) for record in records],
            "at_ms": [record.at_ms for record in records],
            "turns": [record.turn for record in records],
            "tokens": [record.tokens for record in records],
            "targets": [record.target for record in records],
            "chains": [record.chain for record in records],
            "depths": [record.depth for record in records],
            "redacted": [record.redacted for record in records],
            "bodies": [bodies[digest] for _, _, _, digest in rows],
        },
    )
    notified = sorted({thread for thread, _, record, _ in rows if record.kind in NOTIFIED})
    if notified:
        await connection.execute(QUERIES["notify"], {"tenant": tenant, "threads": notified})


async def _hold_bodies(connection: Connection, given: Mapping[bytes, bytes], *, tenant: int) -> dict[bytes, int]:
    """Return the number of every body by its digest; each exists, and cannot be erased, until the transaction ends."""
    # In one order everywhere: two transactions that add the same bodies must not wait for each other.
    missing, found = dict(sorted(given.items())), dict[bytes, int]()
    while missing:
        values = {"tenant": tenant, "digests": list(missing), "data": list(missing.values())}
        made = await (await connection.execute(QUERIES["add_bodies"], values)).fetchall()
        if len(made) < len(missing):
            # The rest was there. A body that was erased before it could be held is added once more.
            made += await (await connection.execute(QUERIES["find_bodies"], values)).fetchall()
        found |= {bytes(digest): body for digest, body in made}
        missing = {digest: data for digest, data in missing.items() if digest not in found}
    return found
