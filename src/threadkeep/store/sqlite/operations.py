"""What is done to records, leases and bodies on a connection, one function an operation."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

from threadkeep.errors import OrdinalConflict, ThreadExists, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store.base import Found, NewRecord, NewThread, Record, RecordKind, Span, ThreadRow
from threadkeep.store.sqlite.errors import Damaged
from threadkeep.store.sqlite.queries import QUERIES

# Below this a body shares its page with others and deflating saves little; above, it spills into pages of its own.
PACK_FROM_BYTES = 1024
# Level 1 takes most of what higher levels take from JSON, at a third of their time; a writer holds the lock meanwhile.
_LEVEL = 1


class Form(IntEnum):
    """Stored by value; the database refuses any other."""

    PLAIN = 0
    DEFLATED = 1


def pack(body: bytes) -> tuple[Form, bytes]:
    """Return the smaller of a body's forms, and its bytes in that form."""
    if len(body) >= PACK_FROM_BYTES:
        deflated = zlib.compress(body, _LEVEL)
        if len(deflated) < len(body):
            return Form.DEFLATED, deflated
    return Form.PLAIN, body


def unpack(form: int, data: bytes) -> bytes:
    """Return the body that `pack` was given; where the data is damaged, the data as it is, which its digest gives away.

    One body that cannot be unpacked must not cost the records that are read with it.
    """
    if form != Form.DEFLATED:
        return data
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data


# The kinds a thread has many of; the index on landmarks leaves them out.
NOT_LANDMARKS = frozenset({RecordKind.ITEM, RecordKind.REPLY, RecordKind.NOTE, RecordKind.MAIL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records of a span are wanted; see `ThreadStore.read`."""

    kinds: Collection[RecordKind] | None
    ordinals: Collection[int] | None
    turn: int | None
    newest_first: bool
    limit: int | None
    bodies: bool


def create(connection: sqlite3.Connection, thread: NewThread, records: Sequence[NewRecord], *, tenant: int) -> None:
    if thread_end(connection, thread.id, tenant=tenant) is not None:
        raise ThreadExists(thread.id)
    parent: int | None = None
    if thread.parent is not None:
        found = thread_end(connection, thread.parent, tenant=tenant)
        if found is None:
            raise ThreadNotFound(thread.parent)
        parent, _ = found
    row = connection.execute(
        QUERIES["add_thread"],
        {
            "tenant": tenant,
            "name": thread.id,
            "dialect": thread.dialect,
            "created_at_ms": thread.created_at_ms,
            "start": thread.start,
            "parent": parent,
        },
    ).lastrowid
    assert row is not None
    _insert(connection, records, tenant=tenant, thread=row, first=thread.start)


def append(connection: sqlite3.Connection, thread_id: str, records: Sequence[NewRecord], *, expected: int, tenant: int) -> int:
    end = thread_end(connection, thread_id, tenant=tenant)
    if end is None:
        raise ThreadNotFound(thread_id)
    thread, actual = end
    if actual != expected:
        raise OrdinalConflict(thread_id, expected=expected, actual=actual)
    _insert(connection, records, tenant=tenant, thread=thread, first=actual)
    return actual + len(records)


def get(connection: sqlite3.Connection, thread_id: str, *, tenant: int) -> ThreadRow:
    row = connection.execute(QUERIES["get_thread"], {"tenant": tenant, "name": thread_id}).fetchone()
    if row is None:
        raise ThreadNotFound(thread_id)
    return _thread_row(row)


def threads(connection: sqlite3.Connection, *, tenant: int, prefix: str, limit: int) -> list[ThreadRow]:
    rows = connection.execute(QUERIES["list_threads"], {"tenant": tenant, "prefix": prefix, "limit": limit})
    return [_thread_row(row) for row in rows.fetchall()]


def read(connection: sqlite3.Connection, span: Span, wanted: Filter, *, tenant: int) -> list[Record]:
    """Read a span. Values are always bound; only fixed text and question marks are put together."""
    kinds = sorted(set(wanted.kinds)) if wanted.kinds is not None else None
    limit = -1 if wanted.limit is None else wanted.limit
    order = f"ORDER BY ordinal {'DESC' if wanted.newest_first else 'ASC'} LIMIT ?"
    # A limited read of several landmark kinds asks for each in turn: one query would sort every landmark the thread has.
    apart = kinds is not None and len(kinds) > 1 and limit >= 0 and _source(wanted) == "from_landmarks"
    parts: list[str] = []
    values: list[str | int] = []
    for some in [[kind] for kind in kinds or ()] if apart else [kinds]:
        sql, bound = _select(span, wanted, kinds=some, tenant=tenant)
        parts.append(f"SELECT * FROM ({sql} {order})" if apart else f"{sql} {order}")
        values += [*bound, limit]
    if apart:
        parts = [f"{' UNION ALL '.join(parts)} {order}"]
        values.append(limit)
    return [_record(span.thread_id, row) for row in connection.execute(parts[0], values).fetchall()]


def _select(span: Span, wanted: Filter, *, kinds: Sequence[RecordKind] | None, tenant: int) -> tuple[str, list[str | int]]:
    sql = f"{QUERIES['read_whole' if wanted.bodies else 'read_without_bodies']} {QUERIES[_source(wanted)]}"
    values: list[str | int] = [tenant, span.thread_id, span.start, span.stop]
    if kinds is not None:
        # Equality, where it is one: only then does the planner know that the index is in order already.
        sql += " AND kind = ?" if len(kinds) == 1 else f" AND kind IN ({', '.join('?' * len(kinds))})"
        values += kinds
    if wanted.ordinals is not None:
        # One bound value however many there are: SQLite limits the question marks of a statement.
        sql += " AND ordinal IN (SELECT value FROM json_each(?))"
        values.append(f"[{','.join(f'{ordinal:d}' for ordinal in set(wanted.ordinals))}]")
    if wanted.turn is not None:
        sql += " AND turn = ?"
        values.append(wanted.turn)
    return sql, values


def lookup(connection: sqlite3.Connection, chains: Sequence[bytes], *, tenant: int) -> list[Found]:
    found: list[tuple[int, Found]] = []
    for chain in dict.fromkeys(chains):
        for row_id, name, ordinal, depth in connection.execute(QUERIES["lookup_chain"], {"chain": chain, "tenant": tenant}):
            found.append((row_id, Found(chain=chain, thread_id=name, ordinal=ordinal, depth=depth)))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [each for _, each in found]


def _source(wanted: Filter) -> str:
    """Return the name of the cheapest source that holds every wanted record."""
    if wanted.ordinals is not None:
        return "from_ordinals"
    if not wanted.kinds or NOT_LANDMARKS.intersection(wanted.kinds):
        return "from_records"
    if wanted.turn is not None and set(wanted.kinds) == {RecordKind.TURN}:
        return "from_turns"
    return "from_landmarks"


def thread_end(connection: sqlite3.Connection, thread_id: str, *, tenant: int) -> tuple[int, int] | None:
    """Return the row of a thread and the ordinal its next record takes."""
    row: tuple[int, int] | None = connection.execute(QUERIES["thread_end"], {"tenant": tenant, "name": thread_id}).fetchone()
    return row


def _insert(connection: sqlite3.Connection, records: Sequence[NewRecord], *, tenant: int, thread: int, first: int) -> None:
    rows = [
        (
            thread, ordinal, record.kind, record.at_ms, record.turn, record.tokens,
            record.target, record.chain, record.depth, record.redacted, _body(connection, record.body, tenant=tenant),
        )
        for ordinal, record in enumerate(records, start=first)
    ]  # fmt: skip
    connection.executemany(QUERIES["append_record"], rows)


def _body(connection: sqlite3.Connection, body: bytes, *, tenant: int) -> int:
    """Return the id of the body, stored once however often it is appended."""
    digest = digest_body(body)
    # A large body is looked for first: an image that is resent must not be deflated again to find that out.
    known = connection.execute(QUERIES["find_body"], (tenant, digest)).fetchone() if len(body) >= PACK_FROM_BYTES else None
    if known is None:
        added = connection.execute(QUERIES["add_body"], (tenant, digest, *pack(body)))
        if added.rowcount:
            assert added.lastrowid is not None
            return added.lastrowid
        known = connection.execute(QUERIES["find_body"], (tenant, digest)).fetchone()
    return int(known[0])


def _thread_row(row: tuple[str, str, int, int, int, str | None, int]) -> ThreadRow:
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


def _kind(kind: str) -> RecordKind:
    try:
        return RecordKind(kind)
    except ValueError as error:
        raise Damaged(f"a record of the kind {kind!r}") from error


def _record(
    thread_id: str,
    row: tuple[int, str, int, int, int, int, bytes, bytes, int | None, bytes | None, int | None, int, int | None],
) -> Record:
    ordinal, kind, at_ms, turn, tokens, form, data, digest, target, chain, depth, redacted, erased_at_ms = row
    return Record(
        thread_id=thread_id,
        ordinal=ordinal,
        kind=_kind(kind),
        at_ms=at_ms,
        turn=turn,
        tokens=tokens,
        body=unpack(form, data),
        digest=digest,
        target=target,
        chain=chain,
        depth=depth,
        redacted=bool(redacted),
        erased=erased_at_ms is not None,
    )


def acquire(connection: sqlite3.Connection, *, key: str, holder: str, now_ms: int, ttl_ms: int, tenant: int) -> bool:
    values = {"tenant": tenant, "key": key, "holder": holder, "ttl_ms": ttl_ms, "now_ms": now_ms}
    connection.execute(QUERIES["hold_lease_to_its_term"], values)
    return connection.execute(QUERIES["take_lease"], values).rowcount == 1


def release(connection: sqlite3.Connection, *, key: str, holder: str, tenant: int) -> None:
    connection.execute(QUERIES["give_back_lease"], {"tenant": tenant, "key": key, "holder": holder})


def erase(connection: sqlite3.Connection, thread_id: str, ordinals: Collection[int], *, at_ms: int, tenant: int) -> int:
    """Empty the bodies of these records and return how many records shared them.

    The bytes are overwritten where they lay, because every writing connection has `secure_delete`. What the index knows of
    them cannot be taken out of it alone: it is contentless, so a row is removed by telling it the very words that went in,
    and they would lie in its older segments until those merge. It is emptied instead, and fills again with the next search.
    """
    end = thread_end(connection, thread_id, tenant=tenant)
    if end is None:
        raise ThreadNotFound(thread_id)
    thread, _ = end
    chosen = connection.execute(QUERIES["bodies_to_erase"], {"thread": thread, "ordinals": json.dumps(sorted(set(ordinals)))})
    bodies = [body for (body,) in chosen.fetchall()]
    if not bodies:
        return 0
    count, first_item = connection.execute(QUERIES["records_of_bodies"], {"bodies": json.dumps(bodies)}).fetchone()
    connection.executemany(QUERIES["erase_body"], [{"id": body, "at_ms": at_ms} for body in bodies])
    connection.execute(QUERIES["note_erasure"])
    upto, _, _ = connection.execute(QUERIES["search_lag"]).fetchone()
    if first_item is not None and first_item <= upto:
        connection.execute(QUERIES["empty_search"])
        connection.execute(QUERIES["forget_search"])
    return int(count)


def empty_the_log(connection: sqlite3.Connection) -> bool:
    """Fold the write-ahead log into the file and cut it to nothing: older versions of the pages lie in it.

    False where someone read from the log, or wrote to it, for as long as a connection is patient.
    """
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
