"""A store with a thread that was compacted three times."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.mcp.sessions import compacted_three_times, opened


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mcp") / "agent.db"

    async def make() -> None:
        async with opened(file) as tk:
            await compacted_three_times(tk)

    asyncio.run(make())
    return file


@pytest.fixture
def store(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of its own, in a working folder without settings."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(made_once, tmp_path / "agent.db"))
