"""`threadkeep migrate` says what it ran and what waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.postgres import PostgresServer

from threadkeep.cli import main
from threadkeep.store.postgres.migrations import MIGRATIONS


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def empty(postgres_server: PostgresServer) -> str:
    return await postgres_server.new_database()


def test_a_server_is_brought_up_to_date_once(empty: str, anyio_backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The first call runs everything, the second finds nothing missing; the address is told without a password."""
    address = empty.replace("threadkeep_owner:@", "threadkeep_owner:hunter22@")
    told = []
    for _ in range(2):
        assert main(["migrate", "--post", "--store", address, "--json"]) == 0
        told.append(json.loads(capfd.readouterr().out))
    assert [each["applied"] for each in told] == [[step.version for step in MIGRATIONS], []]
    assert [each["pending"] for each in told] == [[], []]
    assert "hunter22" not in str(told)


def test_a_file_is_brought_up_to_date_by_opening_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that is not there is not made."""
    assert main(["migrate", "--store", str(tmp_path / "none.db")]) == 1
    assert "there is no such store yet" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
