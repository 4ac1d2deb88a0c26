"""The image and compose.yaml, built and started; skipped where no Docker daemon answers."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 540


def docker(*words: str, environ: dict[str, str] | None = None, seconds: int = 60) -> subprocess.CompletedProcess[str]:
    command = ["docker", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, cwd=ROOT, env=environ)


def missing(*checks: Sequence[str]) -> str | None:
    """Return why Docker cannot be used here; None where it can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    for words in checks:
        asked = docker(*words)
        if asked.returncode != 0:
            return f"`docker {' '.join(words)}` fails: {' '.join(asked.stderr.split())[:120]}"
    return None


@pytest.fixture(scope="module")
def composed() -> Iterator[dict[str, str]]:
    """Compose with a project, a password and a port of its own; everything is removed afterwards."""
    reason = missing(("info",), ("compose", "version"))
    if reason is not None:
        pytest.skip(reason)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {
        **os.environ,
        "COMPOSE_PROJECT_NAME": f"threadkeep-test-{secrets.token_hex(4)}",
        "THREADKEEP_DATABASE_PASSWORD": secrets.token_hex(16),
        "THREADKEEP_PUBLISHED_PORT": str(port),
    }
    try:
        yield environ
    finally:
        docker("compose", "down", "--volumes", "--timeout", "5", environ=environ, seconds=120)


def test_the_gateway_starts_on_postgresql_and_asks_for_a_key(composed: dict[str, str]) -> None:
    """Built, given a key, healthy, and closed to requests without one."""
    built = docker("compose", "build", environ=composed, seconds=BUILD_SECONDS)
    assert built.returncode == 0, built.stderr
    made = docker("compose", "run", "--rm", "gateway", "key", "alice", "--json", environ=composed, seconds=180)
    assert (made.returncode, json.loads(made.stdout)["tenant"]) == (0, "alice"), made.stderr
    started = docker("compose", "up", "--detach", "--wait", environ=composed, seconds=180)
    assert started.returncode == 0, started.stderr
    url = f"http://127.0.0.1:{composed['THREADKEEP_PUBLISHED_PORT']}"
    with urllib.request.urlopen(f"{url}/readyz", timeout=10) as response:
        assert json.load(response)["ok"] is True
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/v1/models", timeout=10)
    assert refused.value.code == 401
    who = docker("compose", "exec", "gateway", "id", "-u", environ=composed)
    assert who.stdout.strip() == "10001"
