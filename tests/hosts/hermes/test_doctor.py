"""`threadkeep doctor --hermes` on a real Hermes: it tells the truth about which engine is in use."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from tests.hosts.hermes.play import Host

pytestmark = [pytest.mark.hosts, pytest.mark.anyio]


async def doctor(host: Host) -> tuple[int, dict[str, Any]]:
    """Return the exit status, and which checks were good."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "threadkeep.cli", "doctor", "--json"),
        *("--hermes", str(host.home), "--hermes-python", sys.executable),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=host.environ,
        cwd=host.folder,
    )
    out, err = await process.communicate()
    assert err == b""
    return process.returncode or 0, json.loads(out)


async def test_it_proves_that_threadkeep_is_in_use(host: Host) -> None:
    """An agent that the host made has threadkeep's engine and its tool; asking it stored nothing."""
    status, found = await doctor(host)
    assert (status, found["in_use"], [check["name"] for check in found["checks"] if not check["good"]]) == (0, True, [])
    assert found["checks"][-1]["found"] == "a new agent uses threadkeep (threadkeep.adapters.hermes)"
    assert not host.store.exists()


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({"enabled": "other"}, ["plugin", "in use"]),
        ({"engine": "compressor"}, ["engine", "in use"]),
        ({"compression": "false"}, ["compression"]),
    ],
)
async def test_it_says_what_keeps_threadkeep_from_being_used(host: Host, config: dict[str, str], wrong: list[str]) -> None:
    """Not enabled, not chosen, or everything turned off: the host falls back without a word, and the doctor does not."""
    host.configure(**config)
    status, found = await doctor(host)
    assert (status, found["in_use"]) == (1, False)
    assert [check["name"] for check in found["checks"] if not check["good"]] == wrong
