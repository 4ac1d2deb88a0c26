"""Retention benchmarks small enough for a test: each family, three compactions, the story in all three dialects."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.retention.run import Plan, Retained, run_retention

TINY = Plan(name="tiny", dialects=("responses", "chat", "messages"), seeds=1, turns=12, hops=3, scored=(1, 3))
FROZEN = Plan(name="tiny", dialects=("chat",), seeds=2, turns=12, hops=3, scored=(1, 3))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def tiny_run(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Retained:
    return await _run(TINY, "story", tmp_path_factory.mktemp("retention"))


@pytest.fixture(scope="session")
async def frozen_run(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Retained:
    return await _run(FROZEN, "frozen", tmp_path_factory.mktemp("retention"))


async def _run(plan: Plan, family: str, folder: Path) -> Retained:
    result = await run_retention(plan, family=family, seed=5, say=lambda text: None, folder=folder)
    assert list(folder.iterdir()) == []
    return result
