"""One PostgreSQL database and the stores in it."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import psycopg
from psycopg.conninfo import conninfo_to_dict

from threadkeep.errors import StoreError
from threadkeep.store.addresses import ADDRESS_FORM, UNREADABLE, redact_address
from threadkeep.store.base import Tenant
from threadkeep.store.postgres.connections import Connection, Connections, check_server
from threadkeep.store.postgres.listener import Listener
from threadkeep.store.postgres.migrations import Migrated, migrate
from threadkeep.store.postgres.queries import QUERIES
from threadkeep.store.postgres.store import NO_ROLE, PostgresStore
from threadkeep.store.postgres.writer import Writer

KEY_BYTES = 32
# Row-level security binds no superuser; whoever connects as one works as this role instead.
ROLE = "threadkeep_tenant"


class PostgresDatabase:
    """An open database. Any number of processes may have it open; a pooler in transaction mode may stand in between."""

    def __init__(
        self, connections: Connections, *, listener: Listener, role: str, searchable: Callable[[str, bytes], str]
    ) -> None:
        self._connections = connections
        self._listener = listener
        self._writer = Writer(connections)
        self._role = role
        self._searchable = searchable

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

        number, known = await self._connections.run(find_or_add)
        return PostgresStore(
            number=number,
            tenant=Tenant(name=name, key=known),
            connections=self._connections,
            writer=self._writer,
            listener=self._listener,
            role=self._role,
            searchable=self._searchable,
            close=self.close,
        )

    async def has_tenant(self, name: str) -> bool:
        """Whether there is a tenant called `name`; none is made."""
        return await self._connections.run(lambda connection: self._find_tenant(connection, name)) is not None

    async def close(self) -> None:
        """Finish what was accepted and close every connection, for every tenant's store. Closing twice is no error."""
        await self._listener.close()
        await self._writer.close()
        await self._connections.close()

    async def _find_tenant(self, connection: Connection, name: str) -> tuple[int, bytes] | None:
        await connection.execute(QUERIES["enter_tenant"], {"tenant": "", "name": name, "role": self._role})
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
