"""What is done to records and threads on a connection, one function an operation. Nothing here knows threads of execution."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.errors import OrdinalConflict, ThreadExists, ThreadNotFound
from holdfast.items import body_digest
from holdfast.store.base import Found, NewRecord, NewThread, Record, RecordKind, Span, ThreadRow
from holdfast.store.sqlite.packing import PACK_FROM_BYTES, pack, unpack
from holdfast.store.sqlite.queries import QUERIES

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
    if _thread_end(connection, thread.id, tenant=tenant) is not None:
        raise ThreadExists(thread.id)
    parent: int | None = None
    if thread.parent is not None:
        found = _thread_end(connection, thread.parent, tenant=tenant)
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
    end = _thread_end(connection, thread_id, tenant=tenant)
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
    sql = f"{QUERIES['read_whole' if wanted.bodies else 'read_without_bodies']} {QUERIES[_source(wanted)]}"
    values: list[str | int] = [tenant, span.thread_id, span.start, span.stop]
    if wanted.kinds is not None:
        kinds = sorted(set(wanted.kinds))
        sql += f" AND kind IN ({', '.join('?' * len(kinds))})"
        values += kinds
    if wanted.ordinals is not None:
        # One bound value however many there are: SQLite limits the question marks of a statement.
        sql += " AND ordinal IN (SELECT value FROM json_each(?))"
        values.append(f"[{','.join(f'{ordinal:d}' for ordinal in set(wanted.ordinals))}]")
    if wanted.turn is not None:
        sql += " AND turn = ?"
        values.append(wanted.turn)
    sql += f" ORDER BY ordinal {'DESC' if wanted.newest_first else 'ASC'} LIMIT ?"
    values.append(-1 if wanted.limit is None else wanted.limit)
    return [_record(span.thread_id, row) for row in connection.execute(sql, values).fetchall()]


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


def _thread_end(connection: sqlite3.Connection, thread_id: str, *, tenant: int) -> tuple[int, int] | None:
    row: tuple[int, int] | None = connection.execute(QUERIES["thread_end"], {"tenant": tenant, "name": thread_id}).fetchone()
    return row


def _insert(connection: sqlite3.Connection, records: Sequence[NewRecord], *, tenant: int, thread: int, first: int) -> None:
    rows = [
        (
            thread, ordinal, record.kind, record.at_ms, record.turn, record.tokens,
            record.target, record.chain, record.depth, _body(connection, record.body, tenant=tenant),
        )
        for ordinal, record in enumerate(records, start=first)
    ]  # fmt: skip
    connection.executemany(QUERIES["append_record"], rows)


def _body(connection: sqlite3.Connection, body: bytes, *, tenant: int) -> int:
    """Return the id of the body, stored once however often it is appended."""
    digest = body_digest(body)
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


def _record(
    thread_id: str, row: tuple[int, str, int, int, int, int, bytes, bytes, int | None, bytes | None, int | None]
) -> Record:
    ordinal, kind, at_ms, turn, tokens, form, data, digest, target, chain, depth = row
    return Record(
        thread_id=thread_id,
        ordinal=ordinal,
        kind=RecordKind(kind),
        at_ms=at_ms,
        turn=turn,
        tokens=tokens,
        body=unpack(form, data),
        digest=digest,
        target=target,
        chain=chain,
        depth=depth,
    )
