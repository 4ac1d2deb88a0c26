"""`threadkeep fork`, `rollback` and `undo`."""

from __future__ import annotations

import msgspec
import pytest
from tests.cli.stories import Cli, worked


def test_a_fork_begins_before_a_turn(on_store: Cli) -> None:
    """The child sees what its parent had said before that turn, and nothing after it."""
    made = on_store("fork", "ship-it", "--before-turn", 2, "--name", "again", "--json")
    assert (made.code, made.err, made.json) == (0, "", {"thread": "again", "parent": "ship-it", "at": 6})
    assert on_store("show", "again", "--json").json["items"] == worked(1)


@pytest.mark.parametrize("place", ["7", "#7"])
def test_a_fork_begins_at_a_record(on_store: Cli, place: str) -> None:
    """`--at` takes an ordinal, with or without the sign pointers are written with; a new id is made up."""
    made = on_store("fork", "ship", "--at", place, "--json").json
    assert made == {"thread": made["thread"], "parent": "ship-it", "at": 7}
    assert made["thread"].startswith("t")


def test_a_fork_begins_at_the_end(on_store: Cli) -> None:
    """Without a place the child begins where the parent is now."""
    assert on_store("fork", "ship-it", "--name", "again", "--json").json == {"thread": "again", "parent": "ship-it", "at": 21}
    assert on_store("show", "again", "--json").json["items"] == on_store("show", "ship-it", "--json").json["items"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--at", "99"], "invalid_target"),
        (["--before-turn", "9"], "invalid_target"),
        (["--name", "ship-it"], "thread_exists"),
        (["--name", "no good"], "invalid_thread_id"),
        (["--name", "\x1b[2J"], "invalid_thread_id"),
    ],
)
def test_a_fork_that_cannot_be_is_a_named_error(on_store: Cli, options: list[str], code: str) -> None:
    """A place that is not there, or a name that cannot be, makes no thread."""
    ran = on_store("fork", "ship-it", *options, "--json")
    assert (ran.code, ran.out) == (1, "")
    assert msgspec.json.decode(ran.err.splitlines()[1])["error"] == code
    assert len(on_store("threads", "--json").json["threads"]) == 1


def test_a_rollback_takes_turns_back(on_store: Cli) -> None:
    """The window is what it was before those turns."""
    ran = on_store("rollback", "ship-it", "--turns", 3, "--json")
    assert (ran.code, ran.err, ran.json) == (0, "", {"thread": "ship-it", "parent": None, "at": 6})
    assert on_store("show", "ship-it", "--json").json["items"] == worked(1)


def test_a_rollback_of_nothing_is_a_named_error(on_store: Cli) -> None:
    """Once every turn is taken back there is none left."""
    on_store("rollback", "ship-it", "--turns", 4)
    ran = on_store("rollback", "ship-it", "--turns", 1)
    assert (ran.code, ran.err) == (1, "threadkeep: thread 'ship-it': has no turn to take back\n")


def test_a_rollback_of_too_many_turns_is_a_named_error(on_store: Cli) -> None:
    """It says how many there are, and the thread is what it was."""
    before = on_store("show", "ship-it", "--json").out
    ran = on_store("rollback", "ship-it", "--turns", 99)
    told = "thread 'ship-it': has 4 turns, so 99 cannot be taken back; name a number up to 4"
    assert (ran.code, ran.err) == (1, f"threadkeep: {told}\n")
    asked = on_store("rollback", "ship-it", "--turns", 99, "--json")
    assert msgspec.json.decode(asked.err.splitlines()[-1]) == {"error": "not_enough_turns", "message": told}
    assert on_store("show", "ship-it", "--json").out == before


def test_an_undo_takes_a_compaction_back(on_store: Cli) -> None:
    """The window is byte for byte what it was before the compaction."""
    before = on_store("show", "ship-it", "--json").out
    on_store("compact", "ship-it")
    assert on_store("show", "ship-it", "--json").out != before
    ran = on_store("undo", "ship-it", "--json")
    assert (ran.code, ran.err, ran.json) == (0, "", {"thread": "ship-it", "checkpoint": 21})
    assert on_store("show", "ship-it", "--json").out == before


def test_an_undo_takes_a_rollback_back(on_store: Cli) -> None:
    """The window is byte for byte what it was; the records say what happened."""
    before = on_store("show", "ship-it", "--json").out
    on_store("rollback", "ship-it", "--turns", 3)
    ran = on_store("undo", "ship-it", "--rollback", "--json")
    assert (ran.code, ran.err, ran.json) == (0, "", {"thread": "ship-it", "rollback": 21})
    assert on_store("show", "ship-it", "--json").out == before
    assert "rollback #21 was undone" in on_store("show", "ship-it", "--records").out
    assert on_store("recall", "ship-it", "#21").code == 0


def test_an_undo_of_nothing_is_a_named_error(on_store: Cli) -> None:
    """A thread that was never compacted has nothing to undo."""
    ran = on_store("undo", "ship-it")
    assert (ran.code, ran.err) == (1, "threadkeep: thread 'ship-it' has no checkpoint on its live path to undo\n")


@pytest.mark.parametrize("command", [("fork", "ship-it"), ("rollback", "ship-it", "--turns", "1")])
def test_people_are_told_in_two_lines(on_store: Cli, command: tuple[str, ...]) -> None:
    """What happened, and that nothing was lost by it."""
    ran = on_store(*command)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[1].startswith("nothing was ")
