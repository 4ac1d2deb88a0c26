"""One tenant's view of a PostgreSQL database: the port, spelled as operations of the writer and transactions of readers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from psycopg.errors import UniqueViolation

from threadkeep.errors import OrdinalConflict, StoreError, ThreadkeepError, ThreadNotFound
from threadkeep.store.base import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow, Watch
from threadkeep.store.postgres.connections import Connection, Connections
from threadkeep.store.postgres.listener import Listener
from threadkeep.store.postgres.operations import Append, Creation, Known, append_all, create_all, known_thread, record, thread_row
from threadkeep.store.postgres.queries import QUERIES
from threadkeep.store.postgres.writer import Writer
from threadkeep.store.search_words import space_cjk, split_phrases

# The dictionary knows the forms of English words; those of other languages are found by how a longer word begins.
BEGINNING_CHARS: Final = 6
# What a tsvector can hold; longer text is found by its beginning.
INDEXED_CHARS: Final = 200_000
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def words_of(text: str) -> str:
    """Return the words of a text to be indexed.

    The parser would take `src/part_1.py`, a host or a version for one word, and then neither `part_1` nor `py` for words of it.
    """
    return _BETWEEN_WORDS.sub(" ", space_cjk(text[:INDEXED_CHARS]))[:INDEXED_CHARS]


def query_of(query: str) -> str:
    """Return an expression that matches any phrase of `query`, or nothing if it has none; each phrase is quoted."""
    found = split_phrases(query)
    begun = dict.fromkeys(
        f"{_quoted(word[:BEGINNING_CHARS])}:*" for word in found if len(word) > BEGINNING_CHARS and word.isalpha()
    )
    return " | ".join((*map(_quoted, found), *begun))


def _quoted(phrase: str) -> str:
    return f"'{_BETWEEN_WORDS.sub(' ', phrase).strip()}'"


# The kinds a thread has many of; the index on landmarks leaves them out.
NOT_LANDMARKS = frozenset({RecordKind.ITEM, RecordKind.REPLY, RecordKind.NOTE, RecordKind.MAIL})
NO_ROLE = "none"
INDEX_BATCH = 500
REMEMBERED_THREADS = 10_000


class PostgresStore:
    """`ThreadStore` and every optional port for one tenant; contracts are stated there. Made by `PostgresDatabase`."""

    def __init__(
        self,
        *,
        number: int,
        tenant: Tenant,
        connections: Connections,
        writer: Writer,
        listener: Listener,
        role: str,
        searchable: Callable[[str, bytes], str],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._number = number
        self._tenant = tenant
        self._connections = connections
        self._writer = writer
        self._listener = listener
        self._entering = {"tenant": str(number), "name": tenant.name, "role": role}
        self._searchable = searchable
        self._close = close
        self._threads: dict[str, Known] = {}
        self._indexed: dict[str, tuple[int, int]] = {}

    @property
    def tenant(self) -> Tenant:
        return self._tenant

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        await self._writer.run_together(self._create_all, Creation(thread=thread, records=records))

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        wanted = Append(thread_id=thread_id, records=records, expected=expected)
        try:
            return await self._writer.run_together(self._append_all, wanted)
        except StoreError as lost:
            if not isinstance(lost.__cause__, UniqueViolation):
                raise
            # Another process saw the same end; the key let one of them have it.
            raise OrdinalConflict(thread_id, expected=expected, actual=(await self.get(thread_id)).next) from lost

    async def get(self, thread_id: str) -> ThreadRow:
        known = await self._known(thread_id)
        if known is None:
            raise ThreadNotFound(thread_id)
        newest = await self._rows("end", {"thread": known.number})
        if not newest:
            return known.row
        ((ordinal, at_ms),) = newest
        return replace(known.row, updated_at_ms=at_ms, next=ordinal + 1)

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        return [thread_row(row) for row in await self._rows("list_threads", {"prefix": prefix, "limit": limit})]

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
        query = query_for(kinds, turn=turn, newest_first=newest_first)
        known = await self._known(span.thread_id)
        if known is None:
            return []
        values = {
            "thread": known.number,
            "start": max(span.start, -(2**62)),
            "stop": min(span.stop, 2**62),
            "kinds": None if kinds is None else sorted(str(kind) for kind in set(kinds)),
            "ordinals": None if ordinals is None else sorted(set(ordinals)),
            "turn": turn,
            "bodies": bodies,
            "limit": limit,
        }
        return [record(span.thread_id, row) for row in await self._rows(query, values)]

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        rows = await self._rows("lookup", {"chains": list(dict.fromkeys(chains))})
        return [Found(chain=bytes(chain), thread_id=name, ordinal=ordinal, depth=depth) for chain, name, ordinal, depth in rows]

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        asked = query_of(query)
        known = {span: found for span in spans if (found := await self._known(span.thread_id)) is not None}
        if not asked or not known:
            return []
        for span in known:
            await self._index(span)
        where = {
            "threads": [found.number for found in known.values()],
            "starts": [span.start for span in known],
            "stops": [min(span.stop, 2**62) for span in known],
        }
        names = {found.number: found.row.id for found in known.values()}
        rows = await self._rows("search", {**where, "query": asked, "limit": limit})
        return [Hit(thread_id=names[thread], ordinal=ordinal, score=score) for thread, ordinal, score in rows]

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
            chosen = {"thread": await self._number_of(connection, thread_id), "ordinals": sorted(set(ordinals))}
            rows = await (await connection.execute(QUERIES["bodies_to_erase"], chosen)).fetchall()
            values = {"bodies": [body for (body,) in rows], "at_ms": at_ms}
            # First: this waits for whoever is appending the same bytes or indexing their words, and what they put there is then
            # seen. Nobody can add to it before the commit.
            rows = await (await connection.execute(QUERIES["erase_bodies"], values)).fetchall()
            gone = {"bodies": [body for (body,) in rows]}
            counted = await (await connection.execute(QUERIES["records_of_bodies"], gone)).fetchone()
            await connection.execute(QUERIES["forget_words"], gone)
            return int(counted[0]) if counted else 0

        erased = await self._writer.run(work)
        if erased:
            await self._connections.outside_transactions(QUERIES["forget_erased"])
        return erased

    @asynccontextmanager
    async def watch(self, thread_id: str | None = None) -> AsyncIterator[Watch]:
        known = await self._known(thread_id) if thread_id is not None else None
        if thread_id is not None and known is None:
            raise ThreadNotFound(thread_id)
        with self._listener.watched(tenant=self._number, thread=known.number if known else None) as watch:
            yield watch

    async def close(self) -> None:
        """Close the database this store came from, and with it every other tenant's store on it."""
        await self._close()

    async def _known(self, thread_id: str) -> Known | None:
        """Return what never changes about a thread. It is asked for once: threads are neither renamed nor removed."""
        known = self._threads.get(thread_id)
        if known is None:
            for row in await self._rows("find_threads", {"names": [thread_id]}):
                known = known_thread(row)
                if len(self._threads) >= REMEMBERED_THREADS:
                    self._threads.clear()
                    self._indexed.clear()
                self._threads[thread_id] = known
        return known

    async def _rows(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return what one query finds in a transaction of this tenant; what another tenant has is not there in it."""
        return await self._connections.ask(QUERIES["enter"], self._entering, QUERIES[query], values)

    async def _enter(self, connection: Connection) -> None:
        """Make the rest of the transaction this tenant's, whoever's it was before."""
        await connection.execute(QUERIES["enter"], self._entering)

    async def _number_of(self, connection: Connection, thread_id: str) -> int:
        row = await (await connection.execute(QUERIES["find_threads"], {"names": [thread_id]})).fetchone()
        if row is None:
            raise ThreadNotFound(thread_id)
        return int(row[0])

    async def _create_all(self, connection: Connection, wanted: Sequence[Creation]) -> Sequence[ThreadkeepError | None]:
        await self._enter(connection)
        return await create_all(connection, wanted, tenant=self._number)

    async def _append_all(self, connection: Connection, wanted: Sequence[Append]) -> Sequence[int | ThreadkeepError]:
        await self._enter(connection)
        return await append_all(connection, wanted, tenant=self._number)

    async def _index(self, span: Span) -> None:
        """Index what no search has seen of a span. What this process saw indexed once it does not look at again."""
        known = await self._known(span.thread_id)
        if known is None:
            return
        stop = min(span.stop, (await self.get(span.thread_id)).next)
        first, reached = self._indexed.get(span.thread_id, (span.start, span.start))
        if not first <= span.start <= reached:
            first, reached = span.start, span.start
        start = max(span.start, reached)
        while start < stop:
            start = await self._index_some(known, start, stop)
        self._indexed[span.thread_id] = (first, max(reached, stop))

    async def _index_some(self, known: Known, start: int, stop: int) -> int:
        """Index some records from `start` on and return where to go on."""

        async def work(connection: Connection) -> int:
            await self._enter(connection)
            asked = {"thread": known.number, "start": start, "stop": stop, "limit": INDEX_BATCH}
            rows = await (await connection.execute(QUERIES["unindexed"], asked)).fetchall()
            words = [words_of(self._searchable(known.row.dialect, bytes(data))) for _, data in rows]
            if rows:
                values = {
                    "tenant": self._number,
                    "thread": known.number,
                    "ordinals": [ordinal for ordinal, _ in rows],
                    "words": words,
                }
                await connection.execute(QUERIES["index_words"], values)
            return int(rows[-1][0]) + 1 if len(rows) == INDEX_BATCH else stop

        return await self._connections.run(work)


def query_for(kinds: Collection[RecordKind] | None, *, turn: int | None, newest_first: bool) -> str:
    """Return the name of the query whose index leaves out what is not wanted."""
    wanted = set(kinds) if kinds is not None else set(RecordKind)
    if wanted == {RecordKind.MAIL}:
        return "newest_mail" if newest_first else "mail"
    if wanted == {RecordKind.TURN} and turn is not None:
        return "newest_turn" if newest_first else "turn"
    if not NOT_LANDMARKS & wanted:
        return "newest_landmarks" if newest_first else "landmarks"
    return "newest" if newest_first else "read"
