"""`threadkeep doctor`: what is set, where it was set, whether it works."""

from __future__ import annotations

import platform
import socket
import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest
from tests.cli.stories import Cli

from threadkeep import Config, __version__
from threadkeep.store.sqlite.file import read_migrations

SCHEMA = max(read_migrations())


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_every_setting_says_where_it_came_from(
    cli: Cli, store: Path, home: Path, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """Flags, variables, the project's file, the user's file and defaults are told apart."""
    monkeypatch.setenv("THREADKEEP_PORT", str(free_port))
    (home / "threadkeep.toml").write_text('auto_compact = "on"\n')
    users = home / ".config" / "threadkeep" / "threadkeep.toml"
    users.parent.mkdir(parents=True)
    users.write_text('model_context_window = 128000\nauto_compact = "off"\n')
    ran = cli("doctor", "--json", "--store", store)
    assert (ran.code, ran.err) == (0, "")
    found = {setting["name"]: (setting["value"], setting["origin"]) for setting in ran.json["settings"]}
    assert list(found) == [field.name for field in fields(Config)]
    said = {
        "store": (str(store), "flag"),
        "model_context_window": (128_000, str(users)),
        "auto_compact": ("on", str(home / "threadkeep.toml")),
        "port": (free_port, "environment"),
    }
    assert {name: value for name, value in found.items() if value[1] != "default"} == said
    assert found["openai_upstream"] == ("https://api.openai.com", "default")


def test_a_store_in_use_is_described(on_store: Cli, store: Path, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """The whole checkup of a working installation."""
    monkeypatch.setenv("THREADKEEP_PORT", str(free_port))
    found = on_store("doctor", "--json").json
    del found["settings"]
    assert found == {
        "version": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "fts5": True,
        "project": None,
        "store": {
            "path": str(store),
            "exists": True,
            "opens": True,
            "schema": SCHEMA,
            "bytes": store.stat().st_size,
            "threads": 1,
            "problem": None,
        },
        "port": "free",
        "advice": ["run `threadkeep threads` to see what was recorded, `threadkeep verify` to prove it"],
    }


def test_a_fresh_machine_is_healthy(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """No store yet is no problem, none is made, and the next step is to try it."""
    monkeypatch.setenv("THREADKEEP_PORT", str(free_port))
    ran = cli("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert "\n  run `threadkeep demo` to see it work, then `threadkeep run CLIENT` to use it\n" in ran.out
    assert "!!" not in ran.out
    assert list(home.iterdir()) == []


def test_a_broken_store_is_said_and_fails(cli: Cli, home: Path) -> None:
    """Everything else is still reported; the exit code and the advice say what is wrong."""
    foreign = home / "notes.txt"
    foreign.write_text("not a database, and long enough to be read as something")
    ran = cli("doctor", "--json", "--store", foreign)
    assert (ran.code, ran.err) == (1, "")
    problem = f"store {foreign}: this file was not made by threadkeep; it was left untouched, choose another path"
    assert (ran.json["store"]["opens"], ran.json["store"]["problem"], ran.json["advice"][0]) == (False, problem, problem)


def test_a_projects_file_that_is_refused_is_said_and_fails(cli: Cli, store: Path, home: Path) -> None:
    """What it wanted is named with where it belongs, nothing of it counts, and everything else is still reported."""
    (home / "threadkeep.toml").write_text('openai_upstream = "http://127.0.0.1:9"\nauto_compact = "on"\n')
    ran = cli("doctor", "--json", "--store", store)
    refused = (
        f"{home / 'threadkeep.toml'}: 'openai_upstream' decides who is sent your credentials and what your sessions say, and a "
        "folder may come from elsewhere; move it to your own ~/.config/threadkeep/threadkeep.toml, set "
        "THREADKEEP_OPENAI_UPSTREAM, or use a flag where the command has one"
    )
    assert (ran.code, ran.err, ran.json["project"], ran.json["advice"][0]) == (1, "", refused, refused)
    assert {setting["origin"] for setting in ran.json["settings"]} == {"flag", "default"}
    told = cli("doctor", "--store", store)
    assert (told.code, next(line.split()[:2] for line in told.out.splitlines() if "!!" in line)) == (1, ["!!", "project"])


@pytest.mark.parametrize("command", [("serve",), ("threads",), ("chat", "hello")])
def test_no_command_works_in_a_folder_that_diverts_it(cli: Cli, home: Path, command: tuple[str, ...]) -> None:
    """Nothing is opened, sent or served; the error names the setting and the file."""
    (home / "threadkeep.toml").write_text('openai_upstream = "http://127.0.0.1:9"\ncompact_model = "m@http://127.0.0.1:9/v1"\n')
    ran = cli(*command)
    assert ran.code == 1
    assert ran.err.startswith(f"threadkeep: {home / 'threadkeep.toml'}: 'openai_upstream' decides who is sent your credentials")
    assert [path.name for path in home.iterdir()] == ["threadkeep.toml"]


def test_a_server_that_cannot_be_reached_does_not_open(cli: Cli) -> None:
    """It is no store that will be made when it is first needed; what the address says of who is let in is not told."""
    ran = cli("doctor", "--store", "postgresql://u:hush-secret@127.0.0.1:1/db?password=hush-too")
    [line] = [line.split() for line in ran.out.splitlines() if " store " in line and "!!" in line]
    assert (ran.code, line) == (1, ["!!", "store", "postgresql://127.0.0.1:1/db", "does", "not", "open"])
    assert "hush" not in f"{ran.out}{ran.err}"


@pytest.mark.parametrize("command", ["doctor", "threads", "verify"])
@pytest.mark.parametrize("password", ["hush/secret", "hush%zz", "a@hush", "hush?secret", "hush#secret"])
def test_an_address_that_cannot_be_read_is_not_told(cli: Cli, command: str, password: str) -> None:
    """The error is of one sentence and says how to write it, or that nobody answers there; nothing of the password is in it."""
    ran = cli(command, "--store", f"postgresql://u:{password}@127.0.0.1:1/db")
    told = f"{ran.out}{ran.err}"
    assert (ran.code, "hush" in told, "secret" in told, "ProgrammingError" in told) == (1, False, False, False)


def test_a_port_in_use_is_said(on_store: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that listens there may be threadkeep itself: worth knowing, no failure."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("THREADKEEP_PORT", str(port))
        ran = on_store("doctor", "--json")
    assert (ran.code, ran.json["port"]) == (0, "taken")
    assert ran.json["advice"][0].startswith(f"something listens on 127.0.0.1:{port}, ")


def test_a_public_address_fails(on_store: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway would refuse it, and so does the doctor."""
    monkeypatch.setenv("THREADKEEP_HOST", "0.0.0.0")
    ran = on_store("doctor", "--json")
    assert (ran.code, ran.json["port"]) == (1, "refused")


def test_a_limit_that_no_window_can_meet_is_named(cli: Cli, store: Path, home: Path) -> None:
    """Said before an agent finds out: the setting, its value, and what to do."""
    (home / "threadkeep.toml").write_text("model_auto_compact_token_limit = 400\n")
    advice = cli("doctor", "--json", "--store", store).json["advice"]
    assert [line for line in advice if "400 tokens" in line and "model_auto_compact_token_limit" in line] != []


def test_a_database_s_password_is_not_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to people nor to machines: what a doctor says is pasted into reports."""
    monkeypatch.setenv("THREADKEEP_STORE", "postgresql://threadkeep:s3cret-word@127.0.0.1:1/threadkeep?connect_timeout=1")
    for flags in ((), ("--json",)):
        ran = cli("doctor", *flags)
        assert "s3cret-word" not in ran.out + ran.err
        assert "postgresql://127.0.0.1:1/threadkeep" in ran.out
