"""`threadkeep pin`, `unpin` and `note`."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from tests.cli.stories import Cli

NOTE = "Ask Ruth before you release."


def entries(on_store: Cli, *, pinned: bool) -> list[str]:
    sections = on_store("show", "ship-it", "--state", "--json").json["sections"]
    return [entry["text"] for section in sections.values() for entry in section if entry["pinned"] is pinned]


def test_a_note_is_in_the_state_at_once_and_survives_compactions(on_store: Cli) -> None:
    """Before any checkpoint, and in the first one."""
    ran = on_store("note", "ship", NOTE, "--pin", "--json")
    noted = {"id": "1", "text": NOTE, "sources": ["ship-it#21"], "pinned": True, "speaker": "user"}
    assert (ran.code, ran.err, ran.json) == (0, "", {"thread": "ship-it", "record": 21, "entries": [noted]})
    assert entries(on_store, pinned=True) == [NOTE]
    on_store("compact", "ship-it")
    assert entries(on_store, pinned=True) == [NOTE]


def test_people_see_a_note_before_any_compaction(on_store: Cli) -> None:
    """`show --state` tells it though no checkpoint counts."""
    told = on_store("note", "ship-it", *NOTE.split())
    assert (told.code, told.err) == (0, "")
    assert "noted as #21" in told.out
    assert NOTE in on_store("show", "ship-it", "--state").out


def test_the_records_say_what_was_remarked(on_store: Cli) -> None:
    """In words, not as they are stored."""
    on_store("note", "ship-it", NOTE, "--pin")
    on_store("unpin", "ship-it", "1")
    on_store("pin", "ship-it", "1")
    shown = " ".join(on_store("show", "ship-it", "--records").out.split())
    assert re.search(r"note, pinned (\d+ )?Ask", shown)
    assert "unpin a person unpinned entry 1" in shown
    assert "pin a person pinned entry 1" in shown


def test_a_note_may_come_from_a_pipe(on_store: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads it from stdin; more than a note may hold is refused."""
    monkeypatch.setattr("sys.stdin", io.StringIO(NOTE))
    assert on_store("note", "ship-it", "-", "--json").json["entries"][0]["text"] == NOTE
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * 9_999))
    refused = on_store("note", "ship-it", "-")
    assert (refused.code, refused.out) == (1, "")
    assert "at most 4,000 characters" in refused.err


def test_an_entry_is_pinned_and_let_go(on_store: Cli) -> None:
    """The answer says which entry it is; doing it twice changes nothing."""
    on_store("compact", "ship-it")
    first = on_store("show", "ship-it", "--state", "--json").json["sections"]["objective"][0]
    ran = on_store("pin", "ship-it", first["id"], "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == {"thread": "ship-it", "record": 22, "entries": [{**first, "pinned": True}]}
    assert entries(on_store, pinned=True) == [first["text"]]
    assert on_store("pin", "ship-it", first["id"], "--json").json["record"] is None
    assert f"entry {first['id']} is already pinned" in on_store("pin", "ship-it", first["id"]).out
    assert f"entry {first['id']} is unpinned" in on_store("unpin", "ship-it", first["id"]).out
    assert entries(on_store, pinned=True) == []


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (("pin", "ship-it", "99"), "entry_not_found", "has no entry '99'; there are"),
        (("unpin", "ship-it", "\x1b[2J"), "entry_not_found", "has no entry"),
        (("note", "ship-it", " "), "invalid_argument", "a note needs words"),
        (("note", "nowhere", "x"), "thread_not_found", "no thread 'nowhere'"),
    ],
)
def test_what_cannot_be_is_a_named_error(on_store: Cli, command: tuple[str, ...], code: str, says: str) -> None:
    """It says what, which, and what there is instead; nothing is written."""
    on_store("note", "ship-it", NOTE)
    before = on_store("show", "ship-it", "--records", "--json").out
    ran = on_store(*command, "--json")
    assert (ran.code, ran.out) == (1, "")
    assert says in ran.err
    assert "\x1b" not in ran.err
    assert msgspec.json.decode(ran.err.splitlines()[1])["error"] == code
    assert on_store("show", "ship-it", "--records", "--json").out == before
