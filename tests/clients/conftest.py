"""Real clients: installed once, run in folders of their own, skipped only where npm is absent."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.drivers import npm, pypi
from tests.drivers.codex import CodexCli
from tests.drivers.npm import CODEX_0_150, CODEX_0_166, NpmClient
from tests.drivers.process import ClientUnavailable
from tests.drivers.pypi import PypiClient
from tests.prefixes import stable_prefix

__all__ = ["stable_prefix"]

CODEX = {client.version: client for client in (CODEX_0_150, CODEX_0_166)}
REPOSITORY = Path(__file__).parents[2]

Client = NpmClient | PypiClient
Installed = Callable[[Client], Awaitable[Path]]


@pytest.fixture(params=CODEX)
def codex_version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# A file with the newest version of each package, which `make test-clients-latest` writes: then no pin counts.
NEWEST = Path(os.environ["THREADKEEP_CLIENTS_NEWEST"]) if "THREADKEEP_CLIENTS_NEWEST" in os.environ else None


def pin_newest(client: Client) -> Client:
    """Return a client in its newest version where the tests run with those, else as it is pinned."""
    versions: dict[str, str] = json.loads(NEWEST.read_text()) if NEWEST is not None else {}
    return replace(client, version=versions.get(client.package, client.version))


@pytest.fixture(scope="session")
def installed_once() -> Installed:
    """Return a function that gives a client's command, installing it on first use."""
    folder = Path(os.environ.get("THREADKEEP_CLIENTS") or REPOSITORY / ".cache" / "clients")

    async def command(pinned: Client) -> Path:
        client = pin_newest(pinned)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            # Test processes that need the same client at once wait for the first to fetch it.
            with (folder / f"{client.folder}.lock").open("w") as lock:
                await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
                return await (npm.install(client, folder) if isinstance(client, NpmClient) else pypi.install(client, folder))
        except ClientUnavailable as error:
            if isinstance(client, PypiClient) or shutil.which("npm") is None:
                pytest.skip(error.reason)
            raise

    return command


@pytest.fixture
def installed(installed_once: Installed, record_property: Callable[[str, object], None]) -> Installed:
    """Return the same, and have the report say which clients a test used."""

    async def command(client: Client) -> Path:
        record_property("client", client.package)
        return await installed_once(client)

    return command


@pytest.fixture
async def codex_at(codex_version: str, tmp_path: Path, installed: Installed) -> Callable[[str], CodexCli]:
    """Return a function that makes a Codex of this version, with an empty home, for a base URL."""
    binary = await installed(CODEX[codex_version])
    return lambda base_url: CodexCli(binary, home=tmp_path / "home", cwd=tmp_path / "work", base_url=base_url)
