"""`threadkeep import` as it ends: what it says of files that could not be read, and whether it failed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.transfer.rollouts import meta, put, turn

from threadkeep.cli import main

KEPT = "a line that could not be understood is kept as a note"


def foreign(path: Path) -> Path:
    """Write a database of something else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a)")
    return path


def test_a_named_database_of_something_else_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is kept, and nothing is said to be."""
    path = foreign(tmp_path / "state.db")
    assert main(["import", str(path), "--store", str(tmp_path / "s.db")]) == 1
    out, err = capsys.readouterr()
    assert (out, "it is no database of Hermes that can be read: no such table: sessions" in err) == ("", True)


def test_what_is_kept_is_said_where_something_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that could not be read at all leaves no note; a line of a rollout does."""
    folder = tmp_path / "in"
    foreign(folder / "state.db")
    put(folder / "a.jsonl", meta(), *turn(1))
    words = ["import", str(folder), "--store", str(tmp_path / "s.db")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert ("1 problem" in out, KEPT in out) == (True, False)
    put(folder / "a.jsonl", meta(), *turn(1), "garbage")
    assert main(words) == 0
    out = capsys.readouterr().out
    assert ("2 problems" in out, KEPT in out) == (True, True)


@pytest.mark.parametrize("name", ["rollout.jsonl", "state.db"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Nobody may ever write to it, and an import reads its files more than once."""
    path = tmp_path / name
    os.mkfifo(path)
    assert main(["import", str(path), "--store", str(tmp_path / "s.db")]) == 1
    assert "it is no regular file; save what it holds as a file, and import that" in capsys.readouterr().err
