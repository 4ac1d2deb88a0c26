"""The guard: counts that depend on no machine are what was committed, and a change of one is said."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.command import main as bench
from benchmarks.guard import counts as counts_module
from benchmarks.guard.counts import Counts, count_all, find_expected_file, list_changes, read_expected, write_expected


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_counts_are_those_that_were_committed() -> None:
    """Facts kept and stale, window tokens, model calls, bytes, statements.

    After a change that was meant: `python -m benchmarks guard --write`.
    """
    said: list[str] = []
    assert list_changes(read_expected(find_expected_file()), await count_all(say=said.append)) == []
    assert said[-1] == "statements and bytes"


def test_what_changed_is_told_line_by_line() -> None:
    """Other values, what is new and what is gone; nothing where all is the same."""
    was = {"store": {"fork": 3, "undo": 1}, "gone": {"x": 1}}
    now = {"store": {"fork": 4, "rollback": 2}}
    assert list_changes(was, now) == [
        "gone: x: 1 → gone",
        "store: fork: 3 → 4",
        "store: rollback: new → 2",
        "store: undo: 1 → gone",
    ]
    assert list_changes(was, was) == []


def test_the_command_fails_on_a_change_and_writes_it_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a file everything is new; once written, nothing is."""

    async def few(*, say: object) -> Counts:
        return {"store": {"fork": 3}}

    monkeypatch.setattr("benchmarks.command.measures.count_all", few)
    file = tmp_path / "expected.json"
    asked = {"what": "guard", "expected": str(file), "json": False}
    assert bench.run(Namespace(**asked, write=False)) == 1
    assert not file.exists()
    assert bench.run(Namespace(**asked, write=True)) == 0
    assert "store: fork: new → 3" in capsys.readouterr().out
    assert json.loads(file.read_text(encoding="utf-8")) == {"store": {"fork": 3}}
    assert bench.run(Namespace(**asked, write=False)) == 0


def test_what_is_written_is_read_back_in_one_order(tmp_path: Path) -> None:
    """Sorted, so that a diff has the lines that changed and no others."""
    file = tmp_path / "counts.json"
    write_expected({"b": {"y": 1, "x": 2}, "a": {}}, file)
    assert read_expected(file) == {"a": {}, "b": {"x": 2, "y": 1}}
    assert file.read_text(encoding="utf-8").index('"a"') < file.read_text(encoding="utf-8").index('"b"')
    assert read_expected(tmp_path / "none.json") == {}
    assert counts_module.find_expected_file().name == "expected.json"
