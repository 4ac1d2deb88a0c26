"""Servers that do not answer, and servers that are not fit: neither is waited for longer than helps, and both are named.

Of one backend alone: a file has no server to wait for.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.postgres import OWNER, PostgresServer

from threadkeep.errors import StoreError
from threadkeep.store.postgres import PostgresDatabase
from threadkeep.store.postgres.connections import TIMEOUTS, add_timeouts, why_unusable

pytestmark = pytest.mark.anyio


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A machine that takes connections and never says a word, as one that lost its power seems to behind a balancer."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)
        yield listening.getsockname()[1]


@pytest.mark.slow
async def test_a_server_that_says_nothing_gives_way_to_the_next_one(
    postgres_server: PostgresServer, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two hosts the first is silent: the second is found, whatever is asked, told or written."""
    monkeypatch.setitem(TIMEOUTS, "connect_timeout", "2")
    folder = conninfo_to_dict(await postgres_server.new_store())
    url = (
        f"postgresql://{OWNER}@/{folder['dbname']}?host=127.0.0.1,{folder['host']}&port={silent_port},{folder.get('port', 5432)}"
    )
    database = await PostgresDatabase.open(url, searchable=lambda _, body: "")
    store = await database.open_tenant()
    assert await store.threads() == []
    await database.close()


def test_an_address_that_says_how_long_to_wait_is_obeyed() -> None:
    """What the address names stands; the rest lets a machine that vanished be noticed within the patience of a failover."""
    assert conninfo_to_dict(add_timeouts("postgresql://u@a:1,b:2/d?connect_timeout=60")) == {
        "user": "u",
        "host": "a,b",
        "port": "1,2",
        "dbname": "d",
        "connect_timeout": "60",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": "20000",
    }


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_cannot_hold_every_text_is_refused(encoding: str, postgres_server: PostgresServer) -> None:
    """It is said when it is opened, with what to do, and nothing was made in it."""
    name = f"threadkeep_{encoding.lower()}"
    connection = await psycopg.AsyncConnection.connect(postgres_server.superuser, autocommit=True)
    async with connection:
        await connection.execute(
            f"CREATE DATABASE {name} OWNER {OWNER} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'".encode()
        )
    url = postgres_server.superuser.replace("//postgres:@/postgres?", f"//{OWNER}:@/{name}?")
    with pytest.raises(StoreError, match=rf"encoding is {encoding}; create it with ENCODING 'UTF8'"):
        await PostgresDatabase.open(url, searchable=lambda _, body: "")
    bare = await psycopg.AsyncConnection.connect(url)
    async with bare:
        found = await (await bare.execute(b"SELECT to_regnamespace('threadkeep') IS NULL")).fetchone()
    assert found == (True,)


def test_a_server_that_is_too_old_is_refused() -> None:
    """PostgreSQL 13 lacks what the schema is written in; what it says by itself would be a syntax error."""
    assert why_unusable(version=130_014, encoding="UTF8") == "its server is PostgreSQL 13; threadkeep needs 14 or newer"
    assert why_unusable(version=140_000, encoding="UTF8") is None
