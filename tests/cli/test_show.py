"""`threadkeep show`: one thread, looked at from six sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.cli.stories import OLD_PORT, TURNS, Cli, asked, changed_mind, damaged, grown, stored, surroundings, worked
from tests.histories import said

from threadkeep import Threadkeep
from threadkeep.compaction import Ledger

RECORDED = [item for number in range(1, TURNS + 1) for item in worked(number)]
# What its items are estimated at.
RECORDED_TOKENS = 3780


async def compacted(tk: Threadkeep) -> None:
    await (await tk.find("ship-it")).compact()


def row_of(name: str, lines: list[str]) -> list[str]:
    """Return the words of the row that begins with `name`."""
    (row,) = [line.split() for line in lines if line.split()[:1] == [name]]
    return row


async def ledger(tk: Threadkeep) -> Ledger:
    return await (await tk.find("ship-it")).state()


@pytest.mark.parametrize("look", [(), ("--window",)])
def test_the_window_is_what_was_recorded(on_store: Cli, look: tuple[str, ...]) -> None:
    """Before any compaction `show --json` prints every item as it was given; the window is the default."""
    ran = on_store("show", "ship-it", *look, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == {
        "thread": "ship-it",
        "dialect": "responses",
        "tokens": RECORDED_TOKENS,
        "checkpoint": None,
        "items": RECORDED,
    }


def test_the_window_is_the_library_s(on_store: Cli, store: Path) -> None:
    """After a compaction too, the command line shows what the library would send."""

    async def window(tk: Threadkeep) -> tuple[int, list[dict[str, Any]]]:
        found = await (await tk.find("ship-it")).window()
        return found.tokens, list(found)

    stored(store, compacted)
    tokens, items = asked(store, window)
    assert tokens < RECORDED_TOKENS
    shown = on_store("show", "ship-it", "--window", "--json").json
    assert shown == {"thread": "ship-it", "dialect": "responses", "tokens": tokens, "checkpoint": 21, "items": items}


def test_a_shortened_message_of_a_person_is_not_called_a_stub(home: Path, cli: Cli) -> None:
    """The window quotes a pasted log by its ends; the words around it are still what a person said."""

    async def paste(tk: Threadkeep) -> None:
        thread = await grown(tk, "pasted", turns=2)
        log = "\n".join(f"ERROR worker {number}: handle 0x{number:04x} is closed" for number in range(80))
        await thread.record([said(f"Why does it fail?\n\n{log}"), *worked(3)[1:], *worked(4), *worked(5), *worked(6)])
        await thread.compact(target="20%")

    path = stored(home / "pasted.db", paste)
    rows = cli("show", "pasted", "--window", "--store", path).out.splitlines()
    (row,) = [line.split() for line in rows if "Why does it fail?" in line]
    assert row[1] == "person"


def test_records_come_with_their_bodies(home: Path, cli: Cli) -> None:
    """Each record has the contract's keys, and its body as the JSON it is."""
    path = stored(home / "one.db", lambda tk: grown(tk, "one", turns=1))
    ran = cli("show", "one", "--records", "--json", "--store", path)
    records = [{**record, "at_ms": record["at_ms"] > 0} for record in ran.json["records"]]
    bodies = [record.pop("body") for record in records]
    assert (ran.code, ran.err, ran.json["thread"]) == (0, "", "one")
    assert bodies == [
        {"dialect": "responses"},
        {"preview": "Step 1: keep port 4601 for service 1."},
        *worked(1),
    ]
    assert records == snapshot(
        [
            {"ordinal": 0, "kind": "meta", "at_ms": True, "turn": 0, "tokens": 0, "live": True},
            {"ordinal": 1, "kind": "turn", "at_ms": True, "turn": 1, "tokens": 0, "live": True},
            {"ordinal": 2, "kind": "item", "at_ms": True, "turn": 1, "tokens": 29, "live": True},
            {"ordinal": 3, "kind": "item", "at_ms": True, "turn": 1, "tokens": 25, "live": True},
            {"ordinal": 4, "kind": "item", "at_ms": True, "turn": 1, "tokens": 866, "live": True},
            {"ordinal": 5, "kind": "item", "at_ms": True, "turn": 1, "tokens": 25, "live": True},
        ]
    )


def test_records_left_behind_are_marked(on_store: Cli, store: Path) -> None:
    """What a rollback took back is still listed, and marked as no longer counting."""
    on_store("rollback", "ship-it", "--turns", 1)
    records = on_store("show", "ship-it", "--records", "--json").json["records"]
    assert [record["ordinal"] for record in records if not record["live"]] == [16, 17, 18, 19, 20]
    assert records[-1]["kind"] == "rollback"
    told = on_store("show", "ship-it", "--records").out
    assert "(person)" in told
    assert "5 records in parentheses: taken back by a rollback, still readable" in told


def test_a_body_that_is_no_json_is_shown_as_text(on_store: Cli, store: Path) -> None:
    """A damaged record does not keep the others from being seen."""
    damaged(store, thread="ship-it", ordinal=5, body=b"\xff{torn")
    record = on_store("show", "ship-it", "--records", "--json").json["records"][5]
    assert record["body"] == "\ufffd{torn"


def test_the_state_of_a_thread_that_was_never_compacted_is_empty(on_store: Cli) -> None:
    """Without a checkpoint every section is there, and empty."""
    empty: dict[str, list[object]] = {"objective": [], "active": [], "inactive": [], "handoff": [], "evidence": []}
    shown = on_store("show", "ship-it", "--state", "--json").json
    assert shown == {"thread": "ship-it", "checkpoint": None, "sections": empty, "in_view": [], "left_out": []}


def test_the_state_is_the_newest_checkpoint_s(on_store: Cli, store: Path) -> None:
    """After a compaction the sections hold the ledger's entries, each with id, text, sources and pin."""
    stored(store, compacted)
    expected = asked(store, ledger)
    shown = on_store("show", "ship-it", "--state", "--json").json
    assert (shown["thread"], shown["checkpoint"]) == ("ship-it", 21)
    assert {
        section: [(entry["id"], entry["text"], entry["sources"], entry["pinned"]) for entry in entries]
        for section, entries in shown["sections"].items()
    } == {
        section: [
            (entry.id, entry.text, [str(source) for source in entry.sources], entry.pinned)
            for entry in expected.entries
            if entry.section == section
        ]
        for section in ("objective", "active", "inactive", "handoff", "evidence")
    }
    assert any("port 4602" in entry["text"] for entry in shown["sections"]["active"])


def test_what_was_replaced_stands_beside_what_replaced_it(cli: Cli, home: Path) -> None:
    """A superseded entry carries the words that took its place, and where they were said."""
    path = stored(home / "moved.db", changed_mind)
    (entry,) = cli("show", "moved", "--state", "--json", "--store", path).json["sections"]["inactive"]
    claim = {"text": "The staging port is now 4700", "source": "moved#13"}
    assert entry == {
        "id": entry["id"],
        "text": OLD_PORT,
        "sources": ["moved#7"],
        "pinned": False,
        "speaker": "user",
        "claim": claim,
    }
    told = cli("show", "moved", "--state", "--store", path).out
    assert "replaced by #13: The staging port is now 4700" in told


def test_the_tree_has_parents_and_children(on_store: Cli, store: Path) -> None:
    """From any member of a family the whole of it is shown, oldest ancestor first, forks in the order they branch off."""

    async def forks(tk: Threadkeep) -> None:
        thread = await tk.find("ship-it")
        late = await thread.fork(before_turn=4, new_id="late")
        await thread.fork(before_turn=2, new_id="early")
        await (await late.fork(new_id="latest")).record([said("and now for something else")])
        await grown(tk, "stranger", turns=1)

    stored(store, forks)
    ran = on_store("show", "late", "--tree", "--json")
    assert ran.json == snapshot(
        {
            "thread": "late",
            "threads": [
                {"id": "ship-it", "parent": None, "at": None, "depth": 0, "title": "Step 1: keep port 4601 for service 1."},
                {"id": "early", "parent": "ship-it", "at": 6, "depth": 1, "title": "Step 1: keep port 4601 for service 1."},
                {"id": "late", "parent": "ship-it", "at": 16, "depth": 1, "title": "Step 1: keep port 4601 for service 1."},
                {"id": "latest", "parent": "late", "at": 17, "depth": 2, "title": "and now for something else"},
            ],
        }
    )
    assert on_store("show", "late", "--tree").out == snapshot("""\
ship-it  Step 1: keep port 4601 for service 1.
├─ early  from #6  Step 1: keep port 4601 for service 1.
└─ late  from #16  this one  Step 1: keep port 4601 for service 1.
   └─ latest  from #17  and now for something else
""")


def test_the_overview_tells_what_a_thread_is_about(on_store: Cli, store: Path) -> None:
    """People see title, size, window, checkpoints with their figures, and the state in brief."""
    stored(store, compacted)
    lines = on_store("show", "ship-it").out.splitlines()
    assert lines[:2] == ["ship-it  Step 1: keep port 4601 for service 1.", "responses · 4 turns · 22 records · written just now"]
    assert lines[3].startswith("window  █░")
    checkpoint = row_of("#21", lines)
    assert (checkpoint[:3], checkpoint[-1:]) == (["#21", "4", "extractive"], ["current"])
    assert any("keep port 4602" in line for line in lines)


def test_an_undone_checkpoint_is_shown_as_undone(on_store: Cli, store: Path) -> None:
    """A compaction that was taken back stays in the list, marked."""
    stored(store, compacted)
    on_store("undo", "ship-it")
    assert row_of("#21", on_store("show", "ship-it").out.splitlines())[-1] == "undone"


def test_a_beginning_of_a_name_is_enough(on_store: Cli) -> None:
    """Any unambiguous prefix names a thread."""
    assert on_store("show", "s", "--json").json["thread"] == "ship-it"


def test_a_beginning_that_several_share_is_refused(on_store: Cli, store: Path) -> None:
    """An ambiguous prefix lists what it could be; an exact name always wins over longer ones."""
    stored(store, lambda tk: grown(tk, "ship-it-again", turns=1))
    ran = on_store("show", "ship")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "threadkeep: 'ship' could be any of ship-it-again, ship-it; add a letter\n"
    assert on_store("show", "ship-it", "--json").json["thread"] == "ship-it"


def test_a_thread_that_is_not_there_is_a_named_error(on_store: Cli) -> None:
    """An unknown thread exits 1 and says how to find those there are."""
    ran = on_store("show", "nobody")
    sentence = "no thread 'nobody' in this store; `threadkeep threads` lists those there are"
    assert (ran.code, ran.out, ran.err) == (1, "", f"threadkeep: {sentence}\n")


def test_a_store_that_is_not_there_is_a_named_error(cli: Cli, home: Path) -> None:
    """A mistyped path is said, and no file is made of it."""
    ran = cli("show", "ship-it", "--store", home / "typo.db")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"threadkeep: store {home / 'typo.db'}: there is no such store yet;")
    assert list(home.iterdir()) == []


def test_a_thread_that_lost_records_to_an_erasure_is_still_shown(on_store: Cli, store: Path) -> None:
    """Its first line and its checkpoint are gone; the overview, the tree and the plot say what is left and end well."""

    async def twice_compacted(tk: Threadkeep) -> None:
        thread = await tk.find("ship-it")
        await thread.compact()
        await thread.record(worked(9))

    stored(store, twice_compacted)
    assert on_store("erase", "ship-it", "2", "--reason", "asked to", "--yes").code == 0
    overview, tree, plot = (on_store("show", "ship-it", *look) for look in ((), ("--tree",), ("--plot",)))
    assert [(ran.code, ran.err) for ran in (overview, tree, plot)] == [(0, "")] * 3
    assert row_of("#21", overview.out.splitlines()) == ["#21", "4", "erased", "undone"]
    assert tree.out.split() == ["ship-it", "this", "one"]
    assert "port 4601" not in overview.out + tree.out


def test_a_terminal_needs_no_web_pages(store: Path) -> None:
    """`threadkeep show` uses the viewer's words without loading its templates, Markdown or the gateway."""
    heavy = {"jinja2", "markdown_it", "aiohttp", "threadkeep.gateway", "threadkeep.viewer.renderer"}
    program = (
        f"import sys; from threadkeep.cli import main; code = main(['show', 'ship-it', '--store', {str(store)!r}]);"
        f"sys.exit(' '.join(sys.modules.keys() & {heavy!r}) or code)"
    )
    ran = subprocess.run([sys.executable, "-c", program], env=surroundings(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
