"""The SQLite backend keeps the contract of the store port."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store import ThreadStore
from holdfast.store.sqlite import SqliteDatabase, SqliteStore
from holdfast.testing.store_checks import CHECKS, Check, StoreMaker


@pytest.fixture
def make_store(tmp_path: Path) -> StoreMaker:
    places: dict[int, Path] = {}

    async def make(*, tenant: str = "local", beside: ThreadStore | None = None) -> SqliteStore:
        place = tmp_path / f"{len(places)}.db" if beside is None else places[id(beside)]
        database = await SqliteDatabase.open(place, searchable=lambda _, body: body.decode(errors="replace"))
        store = await database.tenant(tenant)
        places[id(store)] = place
        return store

    return make


@pytest.mark.anyio
@pytest.mark.parametrize("check", CHECKS, ids=[getattr(check, "__name__", "") for check in CHECKS])
async def test_the_backend_keeps_the_contract(check: Check, make_store: StoreMaker) -> None:
    """Each fact of the port's conformance suite holds on a SQLite file."""
    await check(make_store)
