"""One tenant's view of a PostgreSQL database: the port, spelled as operations of the writer and transactions of readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg.errors import UniqueViolation
from psycopg_pool import AsyncConnectionPool

from holdfast.errors import OrdinalConflict, StoreError, ThreadExists, ThreadNotFound
from holdfast.items import body_digest
from holdfast.store.base import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow
from holdfast.store.postgres.errors import store_errors
from holdfast.store.postgres.queries import QUERIES
from holdfast.store.postgres.words import query_of
from holdfast.store.postgres.writer import Connection, Writer
from holdfast.store.words import spaced

# The kinds a thread has many of; the index on landmarks leaves them out.
NOT_LANDMARKS = frozenset({RecordKind.ITEM, RecordKind.REPLY, RecordKind.NOTE, RecordKind.MAIL})
INDEX_BATCH = 500
# What a tsvector can hold; longer text is found by its beginning.
INDEXED_CHARS = 200_000


class PostgresStore:
    """`ThreadStore`, `Search`, `Leases` and `Erasure` of one tenant; contracts are stated there. Made by `PostgresDatabase`."""

    def __init__(
        self,
        *,
        number: int,
        tenant: Tenant,
        pool: AsyncConnectionPool[Connection],
        writer: Writer,
        location: str,
        role: str | None,
        schema: str,
        searchable: Callable[[str, bytes], str],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._number = number
        self._tenant = tenant
        self._pool = pool
        self._writer = writer
        self._location = location
        self._role = role
        self._schema = schema
        self._searchable = searchable
        self._close = close

    @property
    def tenant(self) -> Tenant:
        return self._tenant

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        async def work(connection: Connection) -> None:
            await self._enter(connection)
            parent = (await self._end(connection, thread.parent))[0] if thread.parent is not None else None
            values = {
                "tenant": self._number,
                "name": thread.id,
                "dialect": thread.dialect,
                "created_at_ms": thread.created_at_ms,
                "start": thread.start,
                "parent": parent,
            }
            row = await (await connection.execute(QUERIES["add_thread"], values)).fetchone()
            if row is None:
                raise ThreadExists(thread.id)
            await self._insert(connection, records, thread=row[0], first=thread.start)

        await self._writer.run(work)

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        async def work(connection: Connection) -> int:
            await self._enter(connection)
            thread, actual = await self._end(connection, thread_id)
            if actual != expected:
                raise OrdinalConflict(thread_id, expected=expected, actual=actual)
            await self._insert(connection, records, thread=thread, first=expected)
            return expected + len(records)

        try:
            return await self._writer.run(work)
        except StoreError as lost:
            if not isinstance(lost.__cause__, UniqueViolation):
                raise
            # Another process saw the same end; the key let one of them have it.
            async with self._transaction() as connection:
                _, actual = await self._end(connection, thread_id)
            raise OrdinalConflict(thread_id, expected=expected, actual=actual) from lost

    async def get(self, thread_id: str) -> ThreadRow:
        async with self._transaction() as connection:
            row = await (await connection.execute(QUERIES["get_thread"], {"name": thread_id})).fetchone()
        if row is None:
            raise ThreadNotFound(thread_id)
        return _thread_row(row)

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        async with self._transaction() as connection:
            rows = await (await connection.execute(QUERIES["list_threads"], {"prefix": prefix, "limit": limit})).fetchall()
        return [_thread_row(row) for row in rows]

    async def read(
        self,
        span: Span,
        *,
        kinds: Collection[RecordKind] | None = None,
        ordinals: Collection[int] | None = None,
        turn: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        bodies: bool = True,
    ) -> list[Record]:
        few = kinds is not None and not NOT_LANDMARKS.intersection(kinds)
        order = b" ORDER BY ordinal DESC LIMIT %(limit)s" if newest_first else b" ORDER BY ordinal ASC LIMIT %(limit)s"
        values = {
            "name": span.thread_id,
            "start": max(span.start, -(2**62)),
            "stop": min(span.stop, 2**62),
            "kinds": None if kinds is None else sorted(str(kind) for kind in set(kinds)),
            "ordinals": None if ordinals is None else sorted(set(ordinals)),
            "turn": turn,
            "bodies": bodies,
            "limit": limit,
        }
        async with self._transaction() as connection:
            rows = await (await connection.execute(QUERIES["landmarks" if few else "read"] + order, values)).fetchall()
        return [_record(span.thread_id, row) for row in rows]

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        async with self._transaction() as connection:
            rows = await (await connection.execute(QUERIES["lookup"], {"chains": list(dict.fromkeys(chains))})).fetchall()
        return [Found(chain=bytes(chain), thread_id=name, ordinal=ordinal, depth=depth) for chain, name, ordinal, depth in rows]

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        asked = query_of(query)
        if not asked or not spans:
            return []
        where = {
            "names": [span.thread_id for span in spans],
            "starts": [span.start for span in spans],
            "stops": [min(span.stop, 2**62) for span in spans],
        }
        while await self._catch_up(where):
            continue
        async with self._transaction() as connection:
            values = {**where, "query": asked, "limit": limit}
            rows = await (await connection.execute(QUERIES["search"], values)).fetchall()
        return [Hit(thread_id=name, ordinal=ordinal, score=score) for name, ordinal, score in rows]

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        values = {"tenant": self._number, "key": key, "holder": holder, "now_ms": now_ms, "ttl_ms": ttl_ms}

        async def work(connection: Connection) -> bool:
            await self._enter(connection)
            await connection.execute(QUERIES["hold_lease_to_its_term"], values)
            return (await connection.execute(QUERIES["take_lease"], values)).rowcount == 1

        return await self._writer.run(work)

    async def release(self, key: str, *, holder: str) -> None:
        async def work(connection: Connection) -> None:
            await self._enter(connection)
            await connection.execute(QUERIES["give_back_lease"], {"key": key, "holder": holder})

        await self._writer.run(work)

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        async def work(connection: Connection) -> int:
            await self._enter(connection)
            thread, _ = await self._end(connection, thread_id)
            chosen = {"thread": thread, "ordinals": sorted(set(ordinals))}
            rows = await (await connection.execute(QUERIES["bodies_to_erase"], chosen)).fetchall()
            values = {"bodies": [body for (body,) in rows], "at_ms": at_ms}
            await connection.execute(QUERIES["forget_words"], values)
            counted = await (await connection.execute(QUERIES["records_of_bodies"], values)).fetchone()
            await connection.execute(QUERIES["erase_bodies"], values)
            return int(counted[0]) if counted else 0

        return await self._writer.run(work)

    async def close(self) -> None:
        """Close the database this store came from, and with it every other tenant's store on it."""
        await self._close()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        """Enter a transaction as this tenant; what another tenant has is not there in it."""
        with store_errors(self._location):
            async with self._pool.connection() as connection, connection.transaction():
                await self._enter(connection)
                yield connection

    async def _enter(self, connection: Connection) -> None:
        """Make the rest of the transaction this tenant's, whoever's it was before."""
        if self._role is not None:
            await connection.execute(b"SET LOCAL ROLE holdfast_tenant")
        await connection.execute(QUERIES["enter"], {"tenant": str(self._number), "schema": self._schema})

    async def _end(self, connection: Connection, thread_id: str) -> tuple[int, int]:
        """Return the row of a thread and the ordinal its next record takes."""
        row = await (await connection.execute(QUERIES["thread_end"], {"name": thread_id})).fetchone()
        if row is None:
            raise ThreadNotFound(thread_id)
        return row[0], row[1]

    async def _insert(self, connection: Connection, records: Sequence[NewRecord], *, thread: int, first: int) -> None:
        if not records:
            return
        digests = [body_digest(record.body) for record in records]
        # In one order everywhere: two transactions that add the same bodies must not wait for each other.
        once = dict(sorted({digest: record.body for digest, record in zip(digests, records, strict=True)}.items()))
        values = {"tenant": self._number, "digests": list(once), "data": list(once.values())}
        await connection.execute(QUERIES["add_bodies"], values)
        rows = await (await connection.execute(QUERIES["find_bodies"], values)).fetchall()
        bodies = {bytes(digest): body for digest, body in rows}
        await connection.execute(
            QUERIES["append_records"],
            {
                "thread": thread,
                "tenant": self._number,
                "ordinals": list(range(first, first + len(records))),
                "kinds": [str(record.kind) for record in records],
                "at_ms": [record.at_ms for record in records],
                "turns": [record.turn for record in records],
                "tokens": [record.tokens for record in records],
                "targets": [record.target for record in records],
                "chains": [record.chain for record in records],
                "depths": [record.depth for record in records],
                "redacted": [record.redacted for record in records],
                "bodies": [bodies[digest] for digest in digests],
            },
        )

    async def _catch_up(self, where: dict[str, Any]) -> bool:
        """Index some of what no search has seen in these spans; whether there may be more."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(QUERIES["unindexed"], {**where, "limit": INDEX_BATCH})).fetchall()
            if not rows:
                return False
            words = [spaced(self._searchable(dialect, bytes(data)))[:INDEXED_CHARS] for _, _, dialect, data in rows]
            values = {
                "tenant": self._number,
                "threads": [thread for thread, _, _, _ in rows],
                "ordinals": [ordinal for _, ordinal, _, _ in rows],
                "words": [text.replace("\0", " ") for text in words],
            }
            await connection.execute(QUERIES["index_words"], values)
        return len(rows) == INDEX_BATCH


def _thread_row(row: tuple[Any, ...]) -> ThreadRow:
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


def _record(thread_id: str, row: tuple[Any, ...]) -> Record:
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
