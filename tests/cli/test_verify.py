"""`threadkeep verify`: prove the store, or say where it is wrong."""

from __future__ import annotations

from pathlib import Path

from tests.cli.stories import Cli, damaged, grown, stored


def test_a_sound_store_is_proven(on_store: Cli, store: Path) -> None:
    """Every thread and record is counted, and nothing is wrong."""
    stored(store, lambda tk: grown(tk, "other", turns=1))
    ran = on_store("verify", "--json")
    assert (ran.code, ran.err, ran.json) == (0, "", {"ok": True, "threads": 2, "records": 27, "problems": []})
    assert on_store("verify").out == "ok  2 threads, 27 records: every digest, ordinal, pair and pointer is right\n"


def test_one_thread_can_be_proven_alone(on_store: Cli, store: Path) -> None:
    """Only the named thread is looked at."""
    stored(store, lambda tk: grown(tk, "other", turns=1))
    damaged(store, thread="ship-it", ordinal=20, body=b'{"type":"message"}')
    assert on_store("verify", "oth", "--json").json == {"ok": True, "threads": 1, "records": 6, "problems": []}


def test_damage_is_found_and_named(on_store: Cli, store: Path) -> None:
    """Changed bytes are a problem with a pointer; the exit code says so, the JSON still goes to stdout."""
    damaged(store, thread="ship-it", ordinal=7, body=b'{"type":"message"}')
    ran = on_store("verify", "--json")
    assert (ran.code, ran.err) == (1, "")
    found = ran.json
    assert (found["ok"], found["threads"], found["records"]) == (False, 1, 21)
    assert (found["problems"][0]["pointer"], found["problems"][0]["code"]) == ("ship-it#7", "bad_digest")
    assert found["problems"][0]["text"].startswith("its bytes are b1:")
    told = on_store("verify")
    assert told.code == 1
    assert told.out.splitlines()[0].endswith(" in 1 thread, 21 records")
    assert "ship-it#7  bad_digest" in told.out
