"""`threadkeep diff`: what changed between two checkpoints of a thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot
from tests.cli.stories import NEW_PORT, OLD_PORT, Cli, asked, changed_mind, damaged, stored, worked
from tests.histories import said

from threadkeep import Threadkeep

QUOTED = "The staging port is now 4700"


@pytest.fixture
def moved(home: Path, cli: Cli) -> Cli:
    """Runs a command on a store in which someone changed their mind; checkpoints are at #11 and #27."""
    path = stored(home / "moved.db", changed_mind)

    def run(*arguments: object) -> Any:
        return cli(*arguments, "--store", path)

    return run


def texts(entries: list[dict[str, Any]], *, speaker: str = "user") -> list[str]:
    return [entry["text"] for entry in entries if entry["speaker"] == speaker]


def test_the_newest_is_compared_with_the_one_it_builds_on(moved: Cli) -> None:
    """Without ordinals the last compaction is explained, with every key of the contract."""
    ran = moved("diff", "moved", "--json")
    found = ran.json
    assert (ran.code, ran.err) == (0, "")
    assert list(found) == [
        "thread",
        "from",
        "to",
        "tokens",
        "layout",
        "added",
        "changed",
        "retired",
        "gone",
        "unchanged",
        "audit",
    ]
    assert (found["thread"], found["from"], found["to"]) == ("moved", 11, 27)
    assert found["audit"]["required"] == found["audit"]["kept"] + found["audit"]["repaired"] > 0
    assert found["audit"]["findings"]["invented"] == []
    assert moved("diff", "moved", "11", "--json").out == moved("diff", "mov", "#11", "#27", "--json").out == ran.out


def test_tokens_and_layout_are_the_windows(moved: Cli, home: Path) -> None:
    """What the later checkpoint left is what the window is now."""

    async def window(tk: Threadkeep) -> tuple[int, int]:
        now = await (await tk.find("moved")).window()
        return now.tokens, len(now)

    found = moved("diff", "moved", "--json").json
    tokens, items = asked(home / "moved.db", window)
    assert found["tokens"]["to"]["after"] == tokens < found["tokens"]["to"]["before"]
    assert found["tokens"]["from"]["after"] < found["tokens"]["from"]["before"]
    layout = found["layout"]["to"]
    assert layout["kept"] + layout["stubbed"] + 1 == items
    assert layout["replaced"] > 0


def test_a_correction_is_told_with_what_it_replaced(moved: Cli) -> None:
    """The old value is retired, the words that a model quoted stand beside it; entries are those of `show --state`."""
    found = moved("diff", "moved", "--json").json
    (retired,) = found["retired"]
    (shown,) = moved("show", "moved", "--state", "--json").json["sections"]["inactive"]
    assert retired == {**shown, "section": "inactive"}
    assert (retired["text"], retired["claim"]) == (OLD_PORT, {"text": QUOTED, "source": "moved#13"})
    assert NEW_PORT in texts(found["added"])


def test_one_checkpoint_alone_is_compared_with_nothing(moved: Cli, home: Path) -> None:
    """Everything it holds is added: all of it, as `show --state` lists it."""

    async def first_only(tk: Threadkeep) -> None:
        thread = await tk.thread("fresh")
        await thread.record([said(OLD_PORT), *worked(1)[1:], *worked(2)])
        await thread.compact()

    stored(home / "moved.db", first_only)
    found = moved("diff", "fresh", "--json").json
    assert (found["from"], found["to"], found["tokens"]["from"], found["layout"]["from"]) == (None, 11, None, None)
    sections = moved("show", "fresh", "--state", "--json").json["sections"]
    assert found["added"] == [{**entry, "section": name} for name, entries in sections.items() for entry in entries]
    assert [found[group] for group in ("changed", "retired", "gone", "unchanged")] == [[], [], [], 0]
    assert moved("diff", "fresh").out.startswith("fresh  from nothing to checkpoint #11\n")


def test_a_checkpoint_is_like_itself(moved: Cli) -> None:
    """Compared with itself nothing changed."""
    found = moved("diff", "moved", 27, 27, "--json").json
    assert [found[group] for group in ("added", "changed", "retired", "gone")] == [[], [], [], []]
    assert found["unchanged"] > 0


def test_backwards_is_a_comparison_too(moved: Cli) -> None:
    """From the later to the earlier the correction is gone, and the old value holds again."""
    found = moved("diff", "moved", 27, 11, "--json").json
    assert NEW_PORT in texts(found["gone"])
    assert OLD_PORT in texts(found["changed"])


def test_what_was_undone_can_still_be_compared(moved: Cli) -> None:
    """An undone checkpoint is no default any more, but its ordinal still names it, and people are told."""
    moved("undo", "moved")
    assert moved("diff", "moved", "--json").json["to"] == 11
    ran = moved("diff", "moved", 11, 27)
    rows = {line.split()[0]: line.split() for line in ran.out.splitlines()[3:5]}
    assert (ran.code, [ordinal for ordinal, row in rows.items() if row[-1] == "undone"]) == (0, ["#27"])


def test_what_was_left_behind_can_still_be_compared(moved: Cli) -> None:
    """A rollback takes a checkpoint off the path; it can be read all the same."""
    moved("rollback", "moved", "--turns", 1)
    ran = moved("diff", "moved", 11, 27)
    row = next(line.split() for line in ran.out.splitlines() if line.split()[:1] == ["#27"])
    assert (ran.code, row[-2:]) == (0, ["left", "behind"])


def test_a_fork_is_compared_with_what_it_came_from(moved: Cli, home: Path) -> None:
    """A checkpoint of the parent is a checkpoint of the child too."""

    async def branch(tk: Threadkeep) -> None:
        child = await (await tk.find("moved")).fork(new_id="child")
        await child.record([item for number in range(6, 10) for item in worked(number)])
        await child.compact(target="1")

    stored(home / "moved.db", branch)
    found = moved("diff", "child", "--json").json
    assert (found["from"], found["to"]) == (27, snapshot(49))
    assert "Step 6: keep port 4606 for service 6." in texts(found["added"])


@pytest.mark.parametrize(
    ("ordinals", "reason"),
    [
        ((5,), "#5 is not a checkpoint but a record of kind 'item'; its newest checkpoints are #11, #27"),
        ((11, 99), "there is no record #99; its newest checkpoints are #11, #27"),
    ],
)
def test_what_is_no_checkpoint_is_a_named_error(moved: Cli, ordinals: tuple[int, ...], reason: str) -> None:
    """The error names what is there instead, and which ordinals would have been right."""
    ran = moved("diff", "moved", *ordinals, "--json")
    assert (ran.code, ran.out) == (1, "")
    error = msgspec.json.decode(ran.err.splitlines()[1])
    assert error == {"error": "invalid_target", "message": f"thread 'moved': {reason}"}


@pytest.mark.parametrize("ordinals", [(), (5,)])
def test_a_thread_without_checkpoints_is_a_named_error(on_store: Cli, ordinals: tuple[int, ...]) -> None:
    """There is nothing to compare, whatever is asked for."""
    ran = on_store("diff", "ship-it", *ordinals)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("threadkeep: thread 'ship-it': it has no checkpoint to compare;")


@pytest.mark.parametrize(
    "body", [b"{torn", b'{"strategy":"s","cut":1,"covers":1,"layout":[],"state":[],"audit":{},"figures":{}}']
)
def test_a_damaged_checkpoint_is_a_named_error(moved: Cli, home: Path, body: bytes) -> None:
    """A broken disk ends in a sentence, not in a traceback."""
    damaged(home / "moved.db", thread="moved", ordinal=11, body=body)
    ran = moved("diff", "moved", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert msgspec.json.decode(ran.err.splitlines()[1])["error"] == "store_corrupt"


def test_an_erased_checkpoint_is_a_named_error(moved: Cli, home: Path) -> None:
    """What was erased on request is said to be, and is not taken for damage."""
    asked(home / "moved.db", lambda tk: tk.backend.store.erase("moved", {11}, at_ms=1))
    ran = moved("diff", "moved")
    assert (ran.code, ran.out, ran.err) == (1, "", "threadkeep: thread 'moved': checkpoint #11 was erased\n")


def test_people_see_groups_with_pointers(moved: Cli) -> None:
    """What was added, replaced and left as it was, each entry with the records behind it, then the audit."""
    lines = moved("diff", "moved").out.splitlines()
    assert lines[0] == "moved  from checkpoint #11 to checkpoint #27"
    assert [line.split()[0] for line in lines[3:5]] == ["#11", "#27"]
    told = " ".join(" ".join(lines).split())
    assert f"{NEW_PORT} #13" in told
    assert f"Replaced 1, by later words; the later ones count inactive 2 {OLD_PORT} #7 replaced by #13: {QUOTED}" in told
    assert any(line.startswith("Unchanged  ") for line in lines)
    assert any(line.startswith("audit: ") for line in lines)
    assert lines[-1] == "`threadkeep recall moved '#N'` shows the record behind a pointer"


def test_every_pointer_that_is_shown_resolves(moved: Cli) -> None:
    """`recall` follows what `diff` names."""
    found = moved("diff", "moved", "--json").json
    entries = [entry for group in ("added", "changed", "retired", "gone") for entry in found[group]]
    pointers = {pointer for entry in entries for pointer in entry["sources"]}
    assert pointers
    assert {moved("recall", "moved", pointer, "--json").json["hits"][0]["pointer"] for pointer in pointers} == pointers


def test_nothing_in_a_transcript_is_obeyed(home: Path, cli: Cli) -> None:
    """Escapes in what was said reach no terminal; what they decorate does."""

    async def attacked(tk: Threadkeep) -> None:
        thread = await tk.thread("hostile")
        await thread.record([said("Keep \x1b]0;owned\x07port \x1b[31m4600\x1b[0m."), *worked(1)[1:], *worked(2), *worked(3)])
        await thread.compact()

    path = stored(home / "hostile.db", attacked)
    for options in ((), ("--json",)):
        ran = cli("diff", "hostile", *options, "--store", path)
        assert (ran.code, "\x1b" in ran.out, "\x07" in ran.out) == (0, False, False)
    assert "Keep port 4600." in cli("diff", "hostile", "--store", path).out
