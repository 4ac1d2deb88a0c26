"""Creating threads and appending records: what several callers want in one transaction goes in by a handful of statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.errors import OrdinalConflict, ThreadExists, ThreadkeepError, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store.base import NewRecord, NewThread, Record, RecordKind, ThreadRow
from threadkeep.store.postgres.connections import Connection
from threadkeep.store.postgres.queries import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What never changes about a thread, as a row with nothing appended yet, and its number."""

    number: int
    row: ThreadRow


def known_thread(row: tuple[Any, ...]) -> Known:
    number, name, dialect, created_at_ms, start, parent = row
    return Known(
        number=number,
        row=ThreadRow(
            id=name,
            dialect=dialect,
            created_at_ms=created_at_ms,
            updated_at_ms=created_at_ms,
            start=start,
            parent=parent,
            next=start,
        ),
    )


def thread_row(row: tuple[Any, ...]) -> ThreadRow:
    name, dialect, created_at_ms, updated_at_ms, start, parent, following = row
    return ThreadRow(
        id=name,
        dialect=dialect,
        created_at_ms=created_at_ms,
        updated_at_ms=updated_at_ms,
        start=start,
        parent=parent,
        next=following,
    )


def record(thread_id: str, row: tuple[Any, ...]) -> Record:
    ordinal, kind, at_ms, turn, tokens, data, digest, target, chain, depth, redacted, erased_at_ms = row
    return Record(
        thread_id=thread_id,
        ordinal=ordinal,
        kind=RecordKind(kind),
        at_ms=at_ms,
        turn=turn,
        tokens=tokens,
        body=bytes(data),
        digest=bytes(digest),
        target=target,
        chain=None if chain is None else bytes(chain),
        depth=depth,
        redacted=redacted,
        erased=erased_at_ms is not None,
    )


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
        (each.thread, each.first + at, record, digest_body(record.body))
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
