"""Real clients: installed once, run in folders of their own, skipped only where npm is absent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.testing.codex import ClientUnavailable, CodexCli, install

CODEX_VERSIONS = ("0.150.1", "0.166.0")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=CODEX_VERSIONS)
def codex_version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def codex_at(codex_version: str, tmp_path: Path) -> Callable[[str], CodexCli]:
    """Return a function that makes a Codex of this version, with an empty home, for a base URL."""
    folder = Path(os.environ.get("HOLDFAST_CLIENTS") or REPOSITORY / ".cache" / "clients")
    try:
        binary = await install(codex_version, folder)
    except ClientUnavailable as error:
        if shutil.which("npm") is None:
            pytest.skip(error.reason)
        raise
    return lambda base_url: CodexCli(binary, home=tmp_path / "home", cwd=tmp_path / "work", base_url=base_url)
