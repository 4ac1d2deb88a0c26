"""The command line as a person has it: a home of its own, a store with a thread in it, and `main`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.stories import Cli, Ran, grown, stored

from threadkeep.cli import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and working folder, no settings from outside, a terminal of 100 columns."""
    for variable in [name for name in os.environ if name.startswith("THREADKEEP_")]:
        monkeypatch.delenv(variable)
    for variable in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in {"HOME": str(tmp_path), "COLUMNS": "100", "TERM": "xterm"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(home: Path) -> Path:
    """A store with one thread, `ship-it`, of four turns, never compacted."""
    return stored(home / "agent.db", lambda tk: grown(tk, "ship-it"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process."""

    def run(*arguments: object) -> Ran:
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(code=code, out=printed.out, err=printed.err)

    return run


@pytest.fixture
def on_store(cli: Cli, store: Path) -> Cli:
    """Runs a command on the store."""

    def run(*arguments: object) -> Ran:
        return cli(*arguments, "--store", store)

    return run
