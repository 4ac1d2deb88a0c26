"""`threadkeep recall`: originals back."""

from __future__ import annotations

import msgspec
import pytest
from tests.cli.stories import Cli


def test_words_find_what_was_said(on_store: Cli) -> None:
    """The best hit is the message with the most of the words, after a compaction too; words need no quotes."""
    on_store("compact", "ship-it", "--target", "10%")
    ran = on_store("recall", "ship-it", "port", "for", "service", "2", "--limit", 2, "--json")
    assert (ran.code, ran.err) == (0, "")
    best, *rest = ran.json["hits"]
    assert len(rest) == 1
    assert best["score"] > rest[0]["score"]
    assert best == {
        "pointer": "ship-it#7",
        "text": "Step 2: keep port 4602 for service 2.",
        "score": best["score"],
        "kind": "item",
    }


@pytest.mark.parametrize("pointer", ["#7", "ship-it#7", "ship#7"])
def test_a_pointer_returns_its_record(on_store: Cli, pointer: str) -> None:
    """A record of the thread itself, or of a named one, whose name may be shortened here too."""
    hits = [{"pointer": "ship-it#7", "text": "Step 2: keep port 4602 for service 2.", "score": 1.0, "kind": "item"}]
    assert on_store("recall", "ship-it", pointer, "--json").json == {"hits": hits}


def test_a_pointer_to_nowhere_is_a_named_error(on_store: Cli) -> None:
    """A record that is not there is said to be missing."""
    ran = on_store("recall", "ship-it", "#99", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert msgspec.json.decode(ran.err.splitlines()[1])["error"] == "record_not_found"


def test_nothing_found_is_an_answer(on_store: Cli) -> None:
    """No hit is no failure."""
    machine, person = on_store("recall", "ship-it", "xylophone", "--json"), on_store("recall", "ship-it", "xylophone")
    assert (machine.code, machine.json) == (0, {"hits": []})
    assert (person.code, person.out) == (0, "no record of ship-it has any of these words; try others\n")


def test_people_see_pointer_and_text(on_store: Cli) -> None:
    """A hit is its pointer, then its own lines, indented."""
    assert on_store("recall", "ship-it", "#7").out == ("ship-it#7  item, score 1\n    Step 2: keep port 4602 for service 2.\n")


def test_words_are_marked_in_colour(on_store: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the words that were asked for stand out; `NO_COLOR` takes the colour away again."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "keep \x1b[1;33mport\x1b[0m 4602" in on_store("recall", "ship-it", "port", "4601").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;33m" not in on_store("recall", "ship-it", "port", "4601").out
