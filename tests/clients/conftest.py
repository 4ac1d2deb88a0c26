"""Real clients: installed once, run in folders of their own, skipped only where npm is absent."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.drivers.codex import CodexCli
from tests.drivers.npm import CODEX_0_150, CODEX_0_166, NpmClient, install
from tests.drivers.process import ClientUnavailable
from tests.prefixes import stable_prefix

__all__ = ["stable_prefix"]

CODEX = {client.version: client for client in (CODEX_0_150, CODEX_0_166)}
REPOSITORY = Path(__file__).parents[2]

Installed = Callable[[NpmClient], Awaitable[Path]]


@pytest.fixture(params=CODEX)
def codex_version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def installed() -> Installed:
    """Return a function that gives a client's command, installing it on first use."""
    folder = Path(os.environ.get("THREADKEEP_CLIENTS") or REPOSITORY / ".cache" / "clients")

    async def command(client: NpmClient) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            # Test processes that need the same client at once wait for the first to fetch it.
            with (folder / f"{client.folder}.lock").open("w") as lock:
                await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
                return await install(client, folder)
        except ClientUnavailable as error:
            if shutil.which("npm") is None:
                pytest.skip(error.reason)
            raise

    return command


@pytest.fixture
async def codex_at(codex_version: str, tmp_path: Path, installed: Installed) -> Callable[[str], CodexCli]:
    """Return a function that makes a Codex of this version, with an empty home, for a base URL."""
    binary = await installed(CODEX[codex_version])
    return lambda base_url: CodexCli(binary, home=tmp_path / "home", cwd=tmp_path / "work", base_url=base_url)
