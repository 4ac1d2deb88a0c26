"""`threadkeep import` and `threadkeep export`, as a person or a script has them."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.stories import Cli, command, started, surroundings
from tests.transfer.rollouts import THREAD, meta, put, spoken, turn, written

ITEMS = len(spoken(1))


def test_import_prints_the_threads_it_made(cli: Cli, home: Path) -> None:
    """As one object with the contract's keys; a store that is not there yet is made."""
    path = put(home / "r.jsonl", meta(), *turn(1), "garbage")
    ran = cli("import", path, "--store", home / "new.db", "--json")
    assert (ran.code, ran.err) == (0, "")
    thread = {"id": THREAD, "source": str(path), "dialect": "responses", "records": 11, "items": ITEMS, "added": 10}
    problem = {"source": str(path), "line": 9, "text": "not a JSON object"}
    assert ran.json == {"threads": [thread], "problems": [problem]}
    assert cli("verify", "--store", home / "new.db").code == 0


def test_import_tells_people_what_is_new_and_what_could_not_be_read(cli: Cli, home: Path) -> None:
    """A table, the number of threads with new records, and where damage lies; escape sequences do nothing."""
    put(home / "sessions" / "r.jsonl", meta(), *turn(1), "\x1b[2Jgarbage")
    ran = cli("import", home / "sessions", "--store", home / "new.db")
    assert ran.code == 0
    assert THREAD in ran.out
    assert "1 thread, 1 with new records" in ran.out
    assert "r.jsonl:9  not a JSON object" in ran.out
    assert "\x1b[2J" not in ran.out
    assert "1 thread, 0 with new records" in cli("import", home / "sessions", "--store", home / "new.db").out


def test_a_file_that_cannot_be_imported_is_an_error(cli: Cli, home: Path) -> None:
    """Named on stderr, with a code for machines; nothing is made of it."""
    ran = cli("import", home / "absent.jsonl", "--store", home / "new.db", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert json.loads(ran.err.splitlines()[-1])["error"] == "unreadable_transcript"
    (home / "notes.json").write_text('{"a": 1}')
    assert "is of no known format; name it with --format" in cli("import", home / "notes.json", "--store", home / "new.db").err


def test_export_writes_to_a_file_a_folder_or_standard_output(cli: Cli, home: Path) -> None:
    """A folder gets a file with the name Codex would give it; what is written is there whole or not at all."""
    put(home / "r.jsonl", meta(), *turn(1))
    cli("import", home / "r.jsonl", "--store", home / "new.db")
    out = home / "out.jsonl"
    ran = cli("export", THREAD[:8], "--format", "codex", "-o", out, "--store", home / "new.db", "--json")
    assert ran.json == {"thread": THREAD, "format": "codex", "output": str(out), "lines": 8}
    (home / "day").mkdir()
    told = cli("export", THREAD, "--format", "codex", "-o", home / "day", "--store", home / "new.db")
    (made,) = (home / "day").iterdir()
    assert made.read_bytes() == out.read_bytes()
    session = json.loads(out.read_text().splitlines()[0])["payload"]["id"]
    assert made.name == f"rollout-2026-01-02T03-04-05-{session}.jsonl"
    assert f"codex resume {session}" in told.out
    refused = cli("export", THREAD, "--format", "chat", "-o", home / "none.json", "--store", home / "new.db")
    assert (refused.code, (home / "none.json").exists()) == (1, False)
    assert sorted(path.name for path in home.iterdir() if path.name.endswith(".part")) == []


def test_export_to_standard_output_is_the_content_alone(home: Path) -> None:
    """Ready for a pipe."""
    put(home / "r.jsonl", meta(), *turn(1))
    for words in (("import", "r.jsonl"), ("export", THREAD, "--format", "responses")):
        ran = subprocess.run(
            command(*words, "--store", "new.db"), env=surroundings(), capture_output=True, check=True, cwd=home, timeout=60
        )
    assert json.loads(ran.stdout) == spoken(1)


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_watching_imports_what_is_added(home: Path, end: signal.Signals, code: int) -> None:
    """A first report, another when the file has grown; either signal ends it."""
    path = put(home / "r.jsonl", meta(), *turn(1))
    with started("import", str(path), "--watch", "--json", "--store", str(home / "new.db")) as running:
        assert running.stdout is not None
        first = json.loads(running.stdout.readline())
        with path.open("ab") as stream:
            stream.write(written(*turn(2)))
        second = json.loads(running.stdout.readline())
        running.send_signal(end)
        assert (*running.communicate(), running.returncode) == ("", "", code)
    assert [report["threads"][0]["items"] for report in (first, second)] == [ITEMS, 2 * ITEMS]
    assert [report["threads"][0]["added"] for report in (first, second)] == [9, len(turn(2)) + 1]
