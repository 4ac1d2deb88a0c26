"""`bench store --store postgresql://…` at a size that proves nothing about speed and everything about completeness."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.benchmarks.conftest import TINY
from tests.postgres import PostgresServer

from benchmarks.store.server import FILE, SERVER, run_server
from benchmarks.tables import build_tables

pytestmark = pytest.mark.slow


@pytest.mark.anyio
async def test_every_measure_stands_beside_sqlite(postgres_server: PostgresServer) -> None:
    """Both places have a figure for every measure at every length, and the server is held to being flat."""
    url = await postgres_server.new_database()
    said: list[str] = []
    result = await run_server(replace(TINY, sizes=(1_000, 2_000)), url=url, seed=3, say=said.append)
    found = {(figure.measure, figure.contender, figure.size) for figure in result.figures}
    measures = ("append", "window", "fork", "lookup")
    assert found == {
        *((measure, place, size) for measure in measures for place in (FILE, SERVER) for size in (1_000, 2_000)),
        *(("4 writers", place, None) for place in (FILE, SERVER)),
    }
    assert [target.what for target in result.targets] == [f"{measure}, 2,000 : 1,000, {SERVER}" for measure in measures]
    assert len(build_tables(result)[0].rows) == 9
    assert said[0] == "building threads of 1,000 records"
