"""A real PostgreSQL server for tests, from a package: started once a run, on a socket in a temporary folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
from tests.replicas.clusters import servers

from threadkeep.store.postgres import PostgresDatabase

OWNER = "threadkeep_owner"
TEMPLATE = "threadkeep_template"


class PostgresServer:
    """A running server. Databases belong to a role that is no superuser, as a team's would."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._numbers = count(1)
        self._migrated = False

    async def new_database(self) -> str:
        """Return the address of a fresh, empty database."""
        name = f"threadkeep_{os.getpid()}_{next(self._numbers)}"
        await self._create(name, like="template0")
        return self._address(name)

    async def new_store(self) -> str:
        """Return the address of a fresh database of the newest schema, cloned from one that was migrated once."""
        if not self._migrated:
            await self._create(TEMPLATE, like="template0")
            await (await PostgresDatabase.open(self._address(TEMPLATE), searchable=lambda _, body: "")).close()
            self._migrated = True
        name = f"threadkeep_{os.getpid()}_{next(self._numbers)}"
        await self._create(name, like=TEMPLATE)
        return self._address(name)

    async def _create(self, name: str, *, like: str) -> None:
        connection = await psycopg.AsyncConnection.connect(self._uri, autocommit=True)
        async with connection:
            await connection.execute(f'CREATE DATABASE "{name}" OWNER {OWNER} TEMPLATE "{like}"'.encode())

    def _address(self, name: str) -> str:
        return self._uri.replace("//postgres:@/postgres?", f"//{OWNER}:@/{name}?")

    def name_in(self, address: str) -> str:
        """Return the name of a database from its address."""
        return address.removeprefix(self._address("")[: self._address("").index("?")]).partition("?")[0]

    @property
    def superuser(self) -> str:
        return self._uri


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a server inside the block. As root the package makes a system user of its own to run it."""
    with servers(1) as [cluster]:
        # Nobody cuts the power in these tests or follows this server, and a thousand short-lived databases are made.
        cluster.begin("fsync = off", "full_page_writes = off", "autovacuum = off", "wal_level = minimal", "max_wal_senders = 0")
        uri = f"postgresql://postgres:@/postgres?host={cluster.folder}"
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {OWNER} LOGIN".encode())
        yield PostgresServer(uri)
