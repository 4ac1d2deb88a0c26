"""What the command line answers before any work is done."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli.stories import Cli, surroundings

from threadkeep import __version__
from threadkeep.cli.commands import COMMANDS
from threadkeep.cli.parser import parse
from threadkeep.cli.settings import read_config

HEAVY = ("aiohttp", "threadkeep.client", "msgspec", "rich", "sqlite3", "uvicorn")


def test_the_commands_are_the_ones_promised() -> None:
    """The first release has these commands and no others."""
    promised = (
        "run threads show recall compact view demo setup serve service key doctor completion "
        "chat note pin unpin diff undo rollback fork archive unarchive "
        "import export mcp hook memory verify copy migrate erase takeout"
    )
    assert list(COMMANDS) == promised.split()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(cli: Cli, name: str) -> None:
    """`--help` has the command's sentence and an example, and exits 0."""
    ran = cli(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"{COMMANDS[name].does[1:]}." in " ".join(ran.out.split())
    assert ran.out.endswith(f"\nexample:\n  {COMMANDS[name].example}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_one(cli: Cli, name: str) -> None:
    """An example begins with the command it explains."""
    assert COMMANDS[name].example.split()[:2] == ["threadkeep", name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_function_behind_it(name: str) -> None:
    """What the registry names can be loaded and called."""
    module, _, function = COMMANDS[name].entry.partition(":")
    assert callable(getattr(import_module(f"threadkeep.cli.{module}"), function))


def test_help_loads_nothing_it_does_not_need() -> None:
    """`threadkeep --help` answers without the runtime, the database, the network or rich."""
    program = (
        "import sys; from threadkeep.cli import main; code = main(['--help']);"
        f"sys.exit(' '.join(sys.modules.keys() & {set(HEAVY)!r}) or code)"
    )
    ran = subprocess.run([sys.executable, "-c", program], env=surroundings(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("usage: threadkeep ")


def test_nothing_asked_is_a_usage_error(cli: Cli) -> None:
    """Without a command the help goes to stderr, and the exit code says that nothing was done."""
    ran = cli()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("usage: threadkeep ")


def test_the_version_is_the_package_s(cli: Cli) -> None:
    """`--version` prints name and version."""
    ran = cli("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"threadkeep {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        "frobnicate",
        "show",
        "show x --window --state",
        "fork x --at 3 --before-turn 1",
        "fork x --at three",
        "fork x --before-turn 0",
        "rollback x",
        "rollback x --turns 0",
        "rollback x --turns -1",
        "compact x --target lots",
        "compact x --target 101%",
        "recall x",
        "diff",
        "diff x one",
        "diff x 1 2 3",
        "recall x word --limit 0",
        "serve --port 65536",
        "serve --auto-compact maybe",
        "demo --json",
        "demo --turns 30",
        "--json demo",
        "--store x.db demo",
        "threads --stor x.db",
    ],
)
def test_a_mistyped_command_is_a_usage_error(cli: Cli, home: Path, arguments: str) -> None:
    """What cannot be understood exits 2, says why on stderr, and touches nothing."""
    ran = cli(*arguments.split())
    assert (ran.code, ran.out) == (2, "")
    assert "error: " in ran.err
    assert list(home.iterdir()) == []


def test_modes_of_several_clients_are_one_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`serve --auto-compact-for NAME=MODE` may be repeated; each names a client or model."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    args = parse(["serve", "--auto-compact-for", "claude-code=on", "--auto-compact-for", "gpt-5=off"])
    assert read_config(args).auto_compact_for == {"claude-code": "on", "gpt-5": "off"}
