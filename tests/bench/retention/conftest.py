"""A retention benchmark small enough for a test: two sessions, three compactions each, in all three dialects."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.bench.retention.run import Plan, Retained, run_retention

TINY = Plan(name="tiny", dialects=("responses", "chat", "messages"), seeds=2, turns=20, hops=3, scored=(1, 3))


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def tiny_run(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Retained:
    folder: Path = tmp_path_factory.mktemp("retention")
    result = await run_retention(TINY, seed=5, say=lambda text: None, folder=folder)
    assert list(folder.iterdir()) == []
    return result
