"""One PostgreSQL database and each tenant's store in it: the port, as operations of the writer and transactions of readers."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import UniqueViolation

from threadkeep.errors import OrdinalConflict, StoreError, ThreadkeepError, ThreadNotFound
from threadkeep.store.addresses import ADDRESS_FORM, UNREADABLE, redact_address
from threadkeep.store.base import (
    NOT_LANDMARKS,
    Found,
    Hit,
    NewRecord,
    NewThread,
    Record,
    RecordKind,
    Span,
    Tenant,
    ThreadRow,
    Watch,
)
from threadkeep.store.postgres.batched_writes import Append, Creation, append_all, create_all
from threadkeep.store.postgres.connections import Connection, Connections, check_server
from threadkeep.store.postgres.listener import Listener
from threadkeep.store.postgres.migrations import Migrated, migrate
from threadkeep.store.postgres.sql_files import QUERIES
from threadkeep.store.postgres.writer import Writer
from threadkeep.store.search_words import PREFIX_CHARS, find_exact, space_cjk, split_phrases

NO_ROLE = "none"
INDEX_BATCH = 500
REMEMBERED_THREADS = 10_000
# What a tsvector can hold; longer text is found by its beginning.
INDEXED_CHARS: Final = 200_000
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What never changes about a thread: its number, and its row as if nothing were appended yet."""

    number: int
    row: ThreadRow


class PostgresStore:
    """`ThreadStore` and every optional port for one tenant; contracts are stated there. Made by `PostgresDatabase`."""

    def __init__(self, database: PostgresDatabase, *, number: int, tenant: Tenant) -> None:
        self._database = database
        self._number = number
        self._tenant = tenant
        self._connections = database.connections
        self._writer = database.writer
        self._entering = {"tenant": str(number), "name": tenant.name, "role": database.role}
        self._threads: dict[str, _Known] = {}
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
        known = await self._find_known(thread_id)
        if known is None:
            raise ThreadNotFound(thread_id)
        newest = await self._query("thread_end", {"thread": known.number})
        if not newest:
            return known.row
        ((ordinal, at_ms),) = newest
        return replace(known.row, updated_at_ms=at_ms, next=ordinal + 1)

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        return [ThreadRow.from_columns(row) for row in await self._query("list_threads", {"prefix": prefix, "limit": limit})]

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
        query = choose_query(kinds, turn=turn, newest_first=newest_first)
        known = await self._find_known(span.thread_id)
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
        return [_make_record(span.thread_id, row) for row in await self._query(query, values)]

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        rows = await self._query("lookup_chains", {"chains": list(dict.fromkeys(chains))})
        return [Found(chain=bytes(chain), thread_id=name, ordinal=ordinal, depth=depth) for chain, name, ordinal, depth in rows]

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        expression = make_expression(query)
        known = {span: found for span in spans if (found := await self._find_known(span.thread_id)) is not None}
        if not expression or not known:
            return []
        for span, found in known.items():
            await self._index_span(found, span)
        values = {
            "threads": [found.number for found in known.values()],
            "starts": [span.start for span in known],
            "stops": [min(span.stop, 2**62) for span in known],
            "query": expression,
            "limit": limit,
        }
        names = {found.number: found.row.id for found in known.values()}
        rows = await self._query("search", values)
        return [Hit(thread_id=names[thread], ordinal=ordinal, score=score) for thread, ordinal, score in rows]

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        values = {"tenant": self._number, "key": key, "holder": holder, "now_ms": now_ms, "ttl_ms": ttl_ms}

        async def work(connection: Connection) -> bool:
            await self._enter(connection)
            await connection.execute(QUERIES["cap_lease"], values)
            return (await connection.execute(QUERIES["acquire_lease"], values)).rowcount == 1

        return await self._writer.run(work)

    async def release(self, key: str, *, holder: str) -> None:
        async def work(connection: Connection) -> None:
            await self._enter(connection)
            await connection.execute(QUERIES["release_lease"], {"key": key, "holder": holder})

        await self._writer.run(work)

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        async def work(connection: Connection) -> int:
            await self._enter(connection)
            row = await (await connection.execute(QUERIES["find_threads"], {"names": [thread_id]})).fetchone()
            if row is None:
                raise ThreadNotFound(thread_id)
            chosen = {"thread": row[0], "ordinals": sorted(set(ordinals))}
            rows = await (await connection.execute(QUERIES["bodies_to_erase"], chosen)).fetchall()
            # First: this waits for transactions that append the same bytes or index their words, so that what they wrote is seen
            # below. Nobody can add to it before the commit.
            values = {"bodies": [body for (body,) in rows], "at_ms": at_ms}
            rows = await (await connection.execute(QUERIES["erase_bodies"], values)).fetchall()
            gone = {"bodies": [body for (body,) in rows]}
            counted = await (await connection.execute(QUERIES["records_of_bodies"], gone)).fetchone()
            await connection.execute(QUERIES["remove_words"], gone)
            return int(counted[0]) if counted else 0

        erased = await self._writer.run(work)
        if erased:
            await self._connections.run_outside_transactions(QUERIES["vacuum_bodies"])
        return erased

    @asynccontextmanager
    async def watch(self, thread_id: str | None = None) -> AsyncIterator[Watch]:
        known = await self._find_known(thread_id) if thread_id is not None else None
        if thread_id is not None and known is None:
            raise ThreadNotFound(thread_id)
        with self._database.listener.watch(tenant=self._number, thread=known.number if known else None) as watch:
            yield watch

    async def close(self) -> None:
        """Close the database this store came from, and with it every other tenant's store on it."""
        await self._database.close()

    async def _find_known(self, thread_id: str) -> _Known | None:
        """Return what never changes about a thread; it is read once, because threads are neither renamed nor removed."""
        known = self._threads.get(thread_id)
        if known is None:
            for number, name, dialect, created_at_ms, start, parent in await self._query("find_threads", {"names": [thread_id]}):
                known = _Known(
                    number=number,
                    row=ThreadRow.from_columns((name, dialect, created_at_ms, created_at_ms, start, parent, start)),
                )
                if len(self._threads) >= REMEMBERED_THREADS:
                    self._threads.clear()
                    self._indexed.clear()
                self._threads[thread_id] = known
        return known

    async def _query(self, query: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Return what one query finds in a transaction of this tenant, which sees no other tenant's rows."""
        return await self._connections.query(QUERIES["enter_tenant"], self._entering, QUERIES[query], values)

    async def _enter(self, connection: Connection) -> None:
        """Make the rest of the transaction this tenant's, whoever's it was before."""
        await connection.execute(QUERIES["enter_tenant"], self._entering)

    async def _create_all(self, connection: Connection, wanted: Sequence[Creation]) -> Sequence[ThreadkeepError | None]:
        await self._enter(connection)
        return await create_all(connection, wanted, tenant=self._number)

    async def _append_all(self, connection: Connection, wanted: Sequence[Append]) -> Sequence[int | ThreadkeepError]:
        await self._enter(connection)
        return await append_all(connection, wanted, tenant=self._number)

    async def _index_span(self, known: _Known, span: Span) -> None:
        """Index what no search has seen of a span. What this process saw indexed once is not checked again."""
        stop = min(span.stop, (await self.get(span.thread_id)).next)
        first, reached = self._indexed.get(span.thread_id, (span.start, span.start))
        if not first <= span.start <= reached:
            first, reached = span.start, span.start
        start = max(span.start, reached)
        while start < stop:
            start = await self._index_batch(known, start, stop)
        self._indexed[span.thread_id] = (first, max(reached, stop))

    async def _index_batch(self, known: _Known, start: int, stop: int) -> int:
        """Index some records from `start` on and return where to go on."""

        async def work(connection: Connection) -> int:
            await self._enter(connection)
            wanted = {"thread": known.number, "start": start, "stop": stop, "limit": INDEX_BATCH}
            rows = await (await connection.execute(QUERIES["unindexed"], wanted)).fetchall()
            if rows:
                values = {
                    "tenant": self._number,
                    "thread": known.number,
                    "ordinals": [ordinal for ordinal, _ in rows],
                    "words": [extract_words(self._database.searchable(known.row.dialect, bytes(data))) for _, data in rows],
                }
                await connection.execute(QUERIES["index_words"], values)
            return int(rows[-1][0]) + 1 if len(rows) == INDEX_BATCH else stop

        return await self._connections.run(work)


def choose_query(kinds: Collection[RecordKind] | None, *, turn: int | None, newest_first: bool) -> str:
    """Return the name of the query whose index leaves out what is not wanted."""
    wanted = set(kinds) if kinds is not None else set(RecordKind)
    if wanted == {RecordKind.MAIL}:
        return "newest_mail" if newest_first else "mail"
    if wanted == {RecordKind.TURN} and turn is not None:
        return "newest_turn" if newest_first else "turn"
    if not NOT_LANDMARKS & wanted:
        return "newest_landmarks" if newest_first else "landmarks"
    return "newest" if newest_first else "read"


def extract_words(text: str) -> str:
    """Return the words of a text to be indexed.

    The server's parser takes `src/part_1.py`, a host or a version for one word; `part_1` and `py` would then not be found.
    """
    return _BETWEEN_WORDS.sub(" ", space_cjk(text[:INDEXED_CHARS]))[:INDEXED_CHARS]


def make_expression(query: str) -> str:
    """Return an expression that matches any phrase of `query`, or "" if it has none; each phrase is quoted."""
    found = split_phrases(query)
    prefixes = dict.fromkeys(f"{_quote(word[:PREFIX_CHARS])}:*" for word in found if len(word) >= PREFIX_CHARS and word.isalpha())
    exact = [name for name in map(space_cjk, find_exact(query)) if name]
    return " | ".join(dict.fromkeys((*map(_quote, (*found, *exact)), *prefixes)))


def _quote(phrase: str) -> str:
    return f"'{_BETWEEN_WORDS.sub(' ', phrase).strip()}'"


def _make_record(thread_id: str, row: tuple[Any, ...]) -> Record:
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


KEY_BYTES = 32
# Row-level security binds no superuser; whoever connects as one works as this role instead.
ROLE = "threadkeep_tenant"


class PostgresDatabase:
    """An open database. Any number of processes may have it open; a pooler in transaction mode may stand in between."""

    def __init__(
        self, connections: Connections, *, listener: Listener, role: str, searchable: Callable[[str, bytes], str]
    ) -> None:
        self.connections = connections
        self.listener = listener
        self.writer = Writer(connections)
        self.role = role
        self.searchable = searchable

    @classmethod
    async def open(cls, url: str, *, searchable: Callable[[str, bytes], str], listen_url: str | None = None) -> PostgresDatabase:
        """Connect to the database that `url` names and run the migrations it lacks that older processes survive.

        Everything lies in the schema `threadkeep`, which is made if it is not there.

        Args:
            searchable: Given a dialect and an item's bytes, returns the text to index. Must not raise, whatever the bytes.
            listen_url: The same database without a pooler, for the one connection that listens; None means `url`.

        Raises:
            StoreTooNew: A newer threadkeep migrated it.
            StoreUnreachable: One of the two addresses does not answer, or refuses us.
            StoreError: It cannot be migrated.
        """
        connections = Connections(url, location=format_location(url))
        try:
            await connections.open()
            if listen_url is not None:
                # Checked now: later, a listener that cannot connect would only make every watcher look by itself.
                await check_server(listen_url, location=format_location(listen_url))
            migrated = await migrate(connections)
            role = await _choose_role(connections, migrated=migrated)
        except BaseException:
            await connections.close()
            raise
        listener = Listener(listen_url or url, location=connections.location)
        return cls(connections, listener=listener, role=role, searchable=searchable)

    async def open_tenant(self, name: str = "local", *, key: bytes | None = None) -> PostgresStore:
        """Return the store of the tenant called `name`; it and its random key are made when it is first asked for.

        A new tenant gets `key` if one is given: that of the store its threads are copied from.
        """

        async def find_or_add(connection: Connection) -> tuple[int, bytes]:
            found = await self._find_tenant(connection, name)
            if found is None:
                await connection.execute(QUERIES["add_tenant"], {"name": name, "key": key or secrets.token_bytes(KEY_BYTES)})
                found = await self._find_tenant(connection, name)
            assert found is not None
            return found

        number, known = await self.connections.run(find_or_add)
        return PostgresStore(self, number=number, tenant=Tenant(name=name, key=known))

    async def has_tenant(self, name: str) -> bool:
        """Whether there is a tenant called `name`; none is made."""
        return await self.connections.run(lambda connection: self._find_tenant(connection, name)) is not None

    async def close(self) -> None:
        """Finish what was accepted and close every connection, for every tenant's store. Closing twice is no error."""
        await self.listener.close()
        await self.writer.close()
        await self.connections.close()

    async def _find_tenant(self, connection: Connection, name: str) -> tuple[int, bytes] | None:
        await connection.execute(QUERIES["enter_tenant"], {"tenant": "", "name": name, "role": self.role})
        row = await (await connection.execute(QUERIES["find_tenant"], {"name": name})).fetchone()
        return None if row is None else (row[0], row[1])


async def migrate_database(url: str, *, post: bool) -> Migrated:
    """Run the migrations a database lacks and close it again; `post` also runs those that no older process survives."""
    connections = Connections(url, location=format_location(url))
    try:
        await connections.open()
        migrated = await migrate(connections, post=post)
        await _choose_role(connections, migrated=migrated)
    finally:
        await connections.close()
    return migrated


async def _choose_role(connections: Connections, *, migrated: Migrated) -> str:
    """Return the role to work as: none if row-level security binds the connected one, else one that it binds."""

    async def work(connection: Connection) -> str:
        row = await (await connection.execute(QUERIES["bypasses_row_security"])).fetchone()
        if row is None or not row[0]:
            return NO_ROLE
        ready = await (await connection.execute(QUERIES["has_role"])).fetchone()
        if migrated.applied or ready is None or not ready[0]:
            await connection.execute(QUERIES["lock_migrations"])
            await connection.execute(QUERIES["create_role"])
            await connection.execute(QUERIES["grant_role"])
        return ROLE

    return await connections.run(work)


def format_location(url: str) -> str:
    """Return a database's address without its password, as errors and people may see it.

    Raises:
        StoreError: It can be read in more than one way, or in none. The driver's own error is withheld: it quotes the address.
    """
    redacted = redact_address(url)
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        redacted = None
    if redacted is None:
        raise StoreError(UNREADABLE, f"its address cannot be read; {ADDRESS_FORM}")
    return redacted
