"""`threadkeep threads`: what is in the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot
from tests.cli.stories import Cli, grown, stored, surroundings

from threadkeep import Threadkeep


async def a_fork(tk: Threadkeep) -> None:
    await (await tk.find("ship-it")).fork(before_turn=3, new_id="again")


def test_threads_are_listed_newest_first(on_store: Cli, store: Path) -> None:
    """The JSON has every key of the contract, for a thread and for its fork."""
    stored(store, a_fork)
    ran = on_store("threads", "--json")
    threads = [{**thread, "updated_at_ms": thread["updated_at_ms"] > 0} for thread in ran.json["threads"]]
    assert (ran.code, ran.err) == (0, "")
    assert threads == snapshot(
        [
            {
                "id": "again",
                "title": "Step 1: keep port 4601 for service 1.",
                "dialect": "responses",
                "records": 1,
                "turns": 2,
                "checkpoints": 0,
                "tokens": 1890,
                "updated_at_ms": True,
                "parent": "ship-it",
                "archived": False,
            },
            {
                "id": "ship-it",
                "title": "Step 1: keep port 4601 for service 1.",
                "dialect": "responses",
                "records": 21,
                "turns": 4,
                "checkpoints": 0,
                "tokens": 3780,
                "updated_at_ms": True,
                "parent": None,
                "archived": False,
            },
        ]
    )


def test_a_limit_keeps_the_newest(on_store: Cli, store: Path) -> None:
    """`--limit 1` shows the thread written last, and says that there may be more."""
    stored(store, lambda tk: grown(tk, "later", turns=1))
    assert [thread["id"] for thread in on_store("threads", "--json", "--limit", 1).json["threads"]] == ["later"]
    assert on_store("threads", "--limit", 1).out.splitlines()[-1].startswith("the newest 1 thread;")


def test_a_list_reads_well_without_colour(on_store: Cli) -> None:
    """People see one line a thread, its title cut to the width, and no escape where there is no terminal."""
    ran = on_store("threads")
    assert ran.out == snapshot("""\
thread   written   turns  records  compactions  tokens  title
ship-it  just now      4       21            0   3,780  Step 1: keep port 4601 for service 1.
""")


def test_a_title_can_be_read_in_a_narrow_terminal(cli: Cli, home: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns and at 60, beside the longest id a client gives: columns that tell less are left out, and cuts are marked."""
    name = "codex-0199a213-81a0-7800-8aa0-3f1f3aca1c11"
    stored(store, lambda tk: grown(tk, name, turns=1))
    for width, left in ((130, 7), (80, 2), (60, 2)):
        monkeypatch.setenv("COLUMNS", f"{width}")
        heading, *lines = cli("threads", "--store", store).out.splitlines()
        assert max(map(len, lines)) <= width
        assert len(heading.split()) == left
        titles = [line[heading.index("title") :] for line in lines]
        assert all("Step 1: keep port 4601 for service 1.".startswith(title.removesuffix("…")) for title in titles)
        assert all(title.endswith(("…", "service 1.")) for title in titles)
        assert min(map(len, titles)) >= (32 if width > 60 else 8)


def test_looking_makes_no_store(cli: Cli, home: Path) -> None:
    """A store that is not there has no threads, and is still not there afterwards."""
    assert cli("threads", "--json", "--store", "absent.db").json == {"threads": []}
    told = cli("threads", "--store", "absent.db")
    assert (told.code, told.out.split(";")[0]) == (0, "no threads in absent.db yet")
    assert not (home / "absent.db").exists()


@pytest.mark.parametrize("before", [True, False])
def test_the_store_may_stand_before_or_after_the_command(cli: Cli, store: Path, *, before: bool) -> None:
    """`--store` and `--json` mean the same on either side."""
    options = ["--store", str(store), "--json"]
    ran = cli(*options, "threads") if before else cli("threads", *options)
    assert [thread["id"] for thread in ran.json["threads"]] == ["ship-it"]


def test_the_store_comes_from_the_environment(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`THREADKEEP_STORE` names the store where no flag does; `sqlite:///` may stand before the path."""
    monkeypatch.setenv("THREADKEEP_STORE", f"sqlite:///{store}")
    assert [thread["id"] for thread in cli("threads", "--json").json["threads"]] == ["ship-it"]


def test_a_foreign_file_is_a_named_error(cli: Cli, home: Path) -> None:
    """A failure is one sentence on stderr and, with --json, its code too; stdout stays empty."""
    foreign = home / "notes.txt"
    foreign.write_text("not a database, and long enough to be read as something")
    plain, machine = cli("threads", "--store", foreign), cli("threads", "--json", "--store", foreign)
    sentence = f"store {foreign}: this file was not made by threadkeep; it was left untouched, choose another path"
    assert (plain.code, plain.out, plain.err) == (1, "", f"threadkeep: {sentence}\n")
    assert (machine.code, machine.out) == (1, "")
    assert machine.err.splitlines()[0] == f"threadkeep: {sentence}"
    assert msgspec.json.decode(machine.err.splitlines()[1]) == {"error": "store_foreign", "message": sentence}


def test_a_bad_setting_is_a_named_error(cli: Cli, home: Path) -> None:
    """A configuration file that cannot be understood is named."""
    (home / "threadkeep.toml").write_text("prot = 1\n")
    ran = cli("threads")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"threadkeep: {home / 'threadkeep.toml'}: no setting is called 'prot'")


def test_a_list_loads_nothing_that_compacts(store: Path) -> None:
    """`threadkeep threads` answers without the facade, compaction, models or the network."""
    heavy = {"threadkeep.client", "threadkeep.compaction", "threadkeep.llm", "threadkeep.gateway", "aiohttp", "jinja2"}
    program = (
        f"import sys; from threadkeep.cli import main; code = main(['threads', '--store', {str(store)!r}]);"
        f"sys.exit(' '.join(sys.modules.keys() & {heavy!r}) or code)"
    )
    ran = subprocess.run([sys.executable, "-c", program], env=surroundings(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "ship-it" in ran.stdout
