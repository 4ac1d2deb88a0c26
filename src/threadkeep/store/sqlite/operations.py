"""What is done to threads, records, bodies and leases on a connection, one function an operation."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

from threadkeep.errors import OrdinalConflict, ThreadExists, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store.base import NOT_LANDMARKS, Found, NewRecord, NewThread, Record, RecordKind, Span, ThreadRow
from threadkeep.store.sqlite.errors import Damaged
from threadkeep.store.sqlite.sql_files import QUERIES

# Below this a body shares its page with others and deflating saves little; above, it spills into pages of its own.
PACK_FROM_BYTES = 1024
# Level 1 takes most of what higher levels take from JSON, at a third of their time; a writer holds the lock meanwhile.
_LEVEL = 1


class Form(IntEnum):
    """How a body's bytes lie in the file. Stored by value; the database refuses any other."""

    PLAIN = 0
    DEFLATED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records of a span are wanted; see `ThreadStore.read`."""

    kinds: Collection[RecordKind] | None
    ordinals: Collection[int] | None
    turn: int | None
    newest_first: bool
    limit: int | None
    bodies: bool


def create_thread(connection: sqlite3.Connection, tenant: int, thread: NewThread, records: Sequence[NewRecord]) -> None:
    if _find_end(connection, thread.id, tenant=tenant) is not None:
        raise ThreadExists(thread.id)
    parent: int | None = None
    if thread.parent is not None:
        found = _find_end(connection, thread.parent, tenant=tenant)
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


def append_records(
    connection: sqlite3.Connection, tenant: int, thread_id: str, records: Sequence[NewRecord], *, expected: int
) -> int:
    end = _find_end(connection, thread_id, tenant=tenant)
    if end is None:
        raise ThreadNotFound(thread_id)
    thread, actual = end
    if actual != expected:
        raise OrdinalConflict(thread_id, expected=expected, actual=actual)
    _insert(connection, records, tenant=tenant, thread=thread, first=actual)
    return actual + len(records)


def get_thread(connection: sqlite3.Connection, tenant: int, thread_id: str) -> ThreadRow:
    row = connection.execute(QUERIES["get_thread"], {"tenant": tenant, "name": thread_id}).fetchone()
    if row is None:
        raise ThreadNotFound(thread_id)
    return ThreadRow.from_columns(row)


def list_threads(connection: sqlite3.Connection, tenant: int, *, prefix: str, limit: int) -> list[ThreadRow]:
    rows = connection.execute(QUERIES["list_threads"], {"tenant": tenant, "prefix": prefix, "limit": limit})
    return [ThreadRow.from_columns(row) for row in rows.fetchall()]


def read_records(connection: sqlite3.Connection, tenant: int, span: Span, wanted: Filter) -> list[Record]:
    """Read a span. Values are always bound; only fixed text and question marks are put together."""
    kinds = sorted(set(wanted.kinds)) if wanted.kinds is not None else None
    limit = -1 if wanted.limit is None else wanted.limit
    order = f"ORDER BY ordinal {'DESC' if wanted.newest_first else 'ASC'} LIMIT ?"
    # A limited read of several landmark kinds asks for each in turn: one query would sort every landmark the thread has.
    is_split = kinds is not None and len(kinds) > 1 and limit >= 0 and _choose_source(wanted) == "from_landmarks"
    parts: list[str] = []
    values: list[str | int] = []
    for some in [[kind] for kind in kinds or ()] if is_split else [kinds]:
        sql, bound = _select(span, wanted, kinds=some, tenant=tenant)
        parts.append(f"SELECT * FROM ({sql} {order})" if is_split else f"{sql} {order}")
        values += [*bound, limit]
    if is_split:
        parts = [f"{' UNION ALL '.join(parts)} {order}"]
        values.append(limit)
    return [_make_record(span.thread_id, row) for row in connection.execute(parts[0], values).fetchall()]


def find_chains(connection: sqlite3.Connection, tenant: int, chains: Sequence[bytes]) -> list[Found]:
    found: list[tuple[int, Found]] = []
    for chain in dict.fromkeys(chains):
        for row_id, name, ordinal, depth in connection.execute(QUERIES["lookup_chain"], {"chain": chain, "tenant": tenant}):
            found.append((row_id, Found(chain=chain, thread_id=name, ordinal=ordinal, depth=depth)))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [each for _, each in found]


def acquire_lease(connection: sqlite3.Connection, tenant: int, *, key: str, holder: str, now_ms: int, ttl_ms: int) -> bool:
    values = {"tenant": tenant, "key": key, "holder": holder, "ttl_ms": ttl_ms, "now_ms": now_ms}
    connection.execute(QUERIES["cap_lease"], values)
    return connection.execute(QUERIES["acquire_lease"], values).rowcount == 1


def release_lease(connection: sqlite3.Connection, tenant: int, *, key: str, holder: str) -> None:
    connection.execute(QUERIES["release_lease"], {"tenant": tenant, "key": key, "holder": holder})


def erase_bodies(connection: sqlite3.Connection, tenant: int, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
    """Empty the bodies of these records and return how many records shared them.

    The bytes are overwritten in place, because every writing connection has `secure_delete`. Words cannot be taken out of the
    index one by one: it is contentless, so a row is removed by repeating the very words that went in, and they would lie in its
    older segments until those merge. The index is emptied instead, and the next search fills it again.
    """
    end = _find_end(connection, thread_id, tenant=tenant)
    if end is None:
        raise ThreadNotFound(thread_id)
    thread, _ = end
    chosen = connection.execute(QUERIES["bodies_to_erase"], {"thread": thread, "ordinals": json.dumps(sorted(set(ordinals)))})
    bodies = [body for (body,) in chosen.fetchall()]
    if not bodies:
        return 0
    count, first_item = connection.execute(QUERIES["records_of_bodies"], {"bodies": json.dumps(bodies)}).fetchone()
    connection.executemany(QUERIES["erase_body"], [{"id": body, "at_ms": at_ms} for body in bodies])
    connection.execute(QUERIES["count_erasure"])
    upto, _, _ = connection.execute(QUERIES["index_state"]).fetchone()
    if first_item is not None and first_item <= upto:
        connection.execute(QUERIES["empty_index"])
        connection.execute(QUERIES["reset_index_mark"])
    return int(count)


def empty_log(connection: sqlite3.Connection) -> bool:
    """Fold the write-ahead log into the file and truncate it: older versions of the pages lie in it.

    False where another process used the log for longer than the busy timeout.
    """
    if connection.in_transaction:
        # In memory the writer also reads, and there is no log.
        return True
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def pack_body(body: bytes) -> tuple[Form, bytes]:
    """Return the smaller of a body's forms, and its bytes in that form."""
    if len(body) >= PACK_FROM_BYTES:
        deflated = zlib.compress(body, _LEVEL)
        if len(deflated) < len(body):
            return Form.DEFLATED, deflated
    return Form.PLAIN, body


def unpack_body(form: int, data: bytes) -> bytes:
    """Return the body that `pack_body` was given; damaged data is returned as it is, and its digest shows the damage.

    One damaged body must not cost the records that are read with it.
    """
    if form != Form.DEFLATED:
        return data
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data


def _find_end(connection: sqlite3.Connection, thread_id: str, *, tenant: int) -> tuple[int, int] | None:
    """Return the row of a thread and the ordinal of its next record."""
    row: tuple[int, int] | None = connection.execute(QUERIES["thread_end"], {"tenant": tenant, "name": thread_id}).fetchone()
    return row


def _insert(connection: sqlite3.Connection, records: Sequence[NewRecord], *, tenant: int, thread: int, first: int) -> None:
    rows = [
        (
            thread, ordinal, record.kind, record.at_ms, record.turn, record.tokens,
            record.target, record.chain, record.depth, record.redacted, _add_body(connection, record.body, tenant=tenant),
        )
        for ordinal, record in enumerate(records, start=first)
    ]  # fmt: skip
    connection.executemany(QUERIES["append_record"], rows)


def _add_body(connection: sqlite3.Connection, body: bytes, *, tenant: int) -> int:
    """Return the id of the body, stored once however often it is appended."""
    digest = digest_body(body)
    # A large body is looked for first: an image that is resent must not be deflated again to find that out.
    known = connection.execute(QUERIES["find_body"], (tenant, digest)).fetchone() if len(body) >= PACK_FROM_BYTES else None
    if known is None:
        added = connection.execute(QUERIES["add_body"], (tenant, digest, *pack_body(body)))
        if added.rowcount:
            assert added.lastrowid is not None
            return added.lastrowid
        known = connection.execute(QUERIES["find_body"], (tenant, digest)).fetchone()
    return int(known[0])


def _select(span: Span, wanted: Filter, *, kinds: Sequence[RecordKind] | None, tenant: int) -> tuple[str, list[str | int]]:
    sql = f"{QUERIES['read_whole' if wanted.bodies else 'read_without_bodies']} {QUERIES[_choose_source(wanted)]}"
    values: list[str | int] = [tenant, span.thread_id, span.start, span.stop]
    if kinds is not None:
        # Equality for a single kind: only then does the planner know that the index is in order already.
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


def _choose_source(wanted: Filter) -> str:
    """Return the name of the cheapest source that holds every wanted record."""
    if wanted.ordinals is not None:
        return "from_ordinals"
    if not wanted.kinds or NOT_LANDMARKS.intersection(wanted.kinds):
        return "from_records"
    if wanted.turn is not None and set(wanted.kinds) == {RecordKind.TURN}:
        return "from_turns"
    return "from_landmarks"


def _make_record(
    thread_id: str,
    row: tuple[int, str, int, int, int, int, bytes, bytes, int | None, bytes | None, int | None, int, int | None],
) -> Record:
    ordinal, kind, at_ms, turn, tokens, form, data, digest, target, chain, depth, redacted, erased_at_ms = row
    try:
        known_kind = RecordKind(kind)
    except ValueError as error:
        raise Damaged(f"a record of the kind {kind!r}") from error
    return Record(
        thread_id=thread_id,
        ordinal=ordinal,
        kind=known_kind,
        at_ms=at_ms,
        turn=turn,
        tokens=tokens,
        body=unpack_body(form, data),
        digest=digest,
        target=target,
        chain=chain,
        depth=depth,
        redacted=bool(redacted),
        erased=erased_at_ms is not None,
    )
