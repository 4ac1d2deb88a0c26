"""Putting records down: what several callers append in one transaction goes in by a handful of statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from threadkeep.errors import OrdinalConflict, ThreadkeepError, ThreadNotFound
from threadkeep.items import body_digest
from threadkeep.store.base import NewRecord, RecordKind
from threadkeep.store.postgres.connections import Connection
from threadkeep.store.postgres.queries import QUERIES

# What somebody may be waiting for in another process. Notifying takes a lock of the whole server until the commit is on its disk:
# were every append to do so, none could share its flush with another process's.
TOLD = frozenset({RecordKind.MAIL, RecordKind.CHECKPOINT})


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


async def append_all(connection: Connection, wanted: Sequence[Append], *, tenant: int) -> Sequence[int | ThreadkeepError]:
    """Append for everyone, in order, and return each one's next ordinal, or why nothing of theirs was written."""
    ends = await _ends(connection, sorted({each.thread_id for each in wanted}))
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
    await insert(connection, placed, tenant=tenant)
    return outcomes


async def _ends(connection: Connection, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the number of each thread that is there, and the ordinal its next record takes."""
    found = await (await connection.execute(QUERIES["find_threads"], {"names": names})).fetchall()
    if len(found) == 1:
        newest = await (await connection.execute(QUERIES["end"], {"thread": found[0][0]})).fetchone()
        last: Mapping[int, int] = {} if newest is None else {found[0][0]: newest[0]}
    else:
        last = dict(await (await connection.execute(QUERIES["ends"], {"threads": [row[0] for row in found]})).fetchall())
    return {name: (number, last[number] + 1 if number in last else start) for number, name, _, _, start, _ in found}


async def insert(connection: Connection, placed: Sequence[Placed], *, tenant: int) -> None:
    """Insert records with their bodies; a body the tenant has is not written again."""
    rows = [
        (each.thread, each.first + at, record, body_digest(record.body))
        for each in placed
        for at, record in enumerate(each.records)
    ]
    if not rows:
        return
    bodies = await _bodies(connection, {digest: record.body for _, _, record, digest in rows}, tenant=tenant)
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
    told = sorted({thread for thread, _, record, _ in rows if record.kind in TOLD})
    if told:
        await connection.execute(QUERIES["tell"], {"tenant": tenant, "threads": told})


async def _bodies(connection: Connection, given: Mapping[bytes, bytes], *, tenant: int) -> dict[bytes, int]:
    """Return the number of every body by its digest; each is there, and held, until the transaction ends."""
    # In one order everywhere: two transactions that add the same bodies must not wait for each other.
    missing, found = dict(sorted(given.items())), dict[bytes, int]()
    while missing:
        values = {"tenant": tenant, "digests": list(missing), "data": list(missing.values())}
        made = await (await connection.execute(QUERIES["add_bodies"], values)).fetchall()
        if len(made) < len(missing):
            # The rest was there. Where one of those was erased before it could be held, it is added once more.
            made += await (await connection.execute(QUERIES["find_bodies"], values)).fetchall()
        found |= {bytes(digest): body for digest, body in made}
        missing = {digest: data for digest, data in missing.items() if digest not in found}
    return found
