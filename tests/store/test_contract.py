"""Every backend keeps the contract of the store's ports."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.postgres import PostgresServer

from threadkeep.store import ThreadStore
from threadkeep.store.postgres import PostgresDatabase, PostgresStore
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore
from threadkeep.testing.optional_store_checks import CHECKS, Check, WholeStore
from threadkeep.testing.store_checks import StoreMaker


def text_of(_: str, body: bytes) -> str:
    return body.decode(errors="replace")


@pytest.fixture
def memory() -> StoreMaker[SqliteStore]:
    places: dict[int, SqliteDatabase] = {}

    async def make(*, tenant: str = "local", beside: ThreadStore | None = None) -> SqliteStore:
        place = await SqliteDatabase.open_in_memory(searchable=text_of) if beside is None else places[id(beside)]
        store = await place.open_tenant(tenant)
        places[id(store)] = place
        return store

    return make


@pytest.fixture
def sqlite(tmp_path: Path) -> StoreMaker[SqliteStore]:
    places: dict[int, Path] = {}

    async def make(*, tenant: str = "local", beside: ThreadStore | None = None) -> SqliteStore:
        place = tmp_path / f"{len(places)}.db" if beside is None else places[id(beside)]
        store = await (await SqliteDatabase.open(place, searchable=text_of)).open_tenant(tenant)
        places[id(store)] = place
        return store

    return make


@pytest.fixture
async def postgres(postgres_server: PostgresServer) -> AsyncIterator[StoreMaker[PostgresStore]]:
    places: dict[int, str] = {}
    opened: list[PostgresStore] = []

    async def make(*, tenant: str = "local", beside: ThreadStore | None = None) -> PostgresStore:
        place = await postgres_server.new_store() if beside is None else places[id(beside)]
        store = await (await PostgresDatabase.open(place, searchable=text_of)).open_tenant(tenant)
        places[id(store)] = place
        opened.append(store)
        return store

    yield make
    for store in opened:
        await store.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest) -> StoreMaker[WholeStore]:
    make: StoreMaker[WholeStore] = request.getfixturevalue(request.param)
    return make


@pytest.mark.anyio
@pytest.mark.parametrize("check", CHECKS, ids=[getattr(check, "__name__", "") for check in CHECKS])
async def test_the_backend_keeps_the_contract(check: Check, make_store: StoreMaker[WholeStore]) -> None:
    """Each fact of the conformance suite holds in memory, on a SQLite file and in a PostgreSQL database."""
    await check(make_store)


ABOUT_ONE = [
    path for path in sorted(Path(__file__).parent.glob("test_*.py")) if "sqlite_" in path.name or "postgres_" in path.name
]


@pytest.mark.parametrize("path", ABOUT_ONE, ids=[path.stem for path in ABOUT_ONE])
def test_a_file_about_one_backend_says_why(path: Path) -> None:
    """What every backend must do is a check in `threadkeep.testing`, or runs on both here."""
    told = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert "Of one backend alone: " in told
