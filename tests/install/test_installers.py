"""Each common installer makes a working `threadkeep` from a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.prefix) / "bin" / "uv"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where no package index answers; a build machine must have one."""
    probe = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "hatchling"]
    done = subprocess.run([*probe, "--dest", tmp_path_factory.mktemp("probe")], capture_output=True, text=True, timeout=300)
    if done.returncode and "CI" not in os.environ:
        pytest.skip("no package index answers here")
    assert done.returncode == 0, done.stderr


def run(*command: str | Path, **variables: Path) -> str:
    """Run a command with further variables and return what it printed."""
    environ = os.environ | {name: str(value) for name, value in variables.items()}
    return subprocess.run(command, check=True, env=environ, capture_output=True, text=True, timeout=300).stdout


def check_works(threadkeep: Path, store: Path) -> None:
    assert run(threadkeep, "--version").startswith("threadkeep ")
    assert json.loads(run(threadkeep, "threads", "--json", THREADKEEP_STORE=store)) == {"threads": []}


@pytest.mark.usefixtures("index")
def test_pip_install(tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", ROOT)
    check_works(tmp_path / "venv" / "bin" / "threadkeep", tmp_path / "threads.db")


@pytest.mark.usefixtures("index")
def test_uv_tool_install(tmp_path: Path) -> None:
    run(UV, "tool", "install", "--quiet", ROOT, UV_TOOL_DIR=tmp_path / "tools", UV_TOOL_BIN_DIR=tmp_path / "bin")
    check_works(tmp_path / "bin" / "threadkeep", tmp_path / "threads.db")


@pytest.mark.usefixtures("index")
def test_pipx_install(tmp_path: Path) -> None:
    run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "pipx")
    run(UV, "pip", "install", "--quiet", "--python", tmp_path / "pipx" / "bin" / "python", "pipx")
    run(tmp_path / "pipx" / "bin" / "pipx", "install", ROOT, PIPX_HOME=tmp_path / "home", PIPX_BIN_DIR=tmp_path / "bin")
    check_works(tmp_path / "bin" / "threadkeep", tmp_path / "threads.db")
