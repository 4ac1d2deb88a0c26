"""A benchmark small enough for a test: every measure, a few rows each."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.result import Result
from benchmarks.store.run import Plan, run_store

TINY = Plan(
    name="tiny",
    append_rounds=2,
    rounds=2,
    rows=3,
    turns=1,
    writers=4,
    sizes=(10, 1_000),
    loaded=(30,),
    checkpoints=2,
    probes=3,
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the run of `tiny_run` said it was doing."""
    return []


@pytest.fixture(scope="module")
async def tiny_run(anyio_backend: str, said: list[str], tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder: Path = tmp_path_factory.mktemp("bench")
    result = await run_store(TINY, seed=3, say=said.append, folder=folder)
    assert list(folder.iterdir()) == []
    return result
