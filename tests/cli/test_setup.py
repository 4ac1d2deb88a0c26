"""`threadkeep setup`: which clients are there, what is written for each, and that undoing takes back that and no more."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.stories import surroundings

if TYPE_CHECKING:
    from tests.cli.stories import Cli

URL = "http://127.0.0.1:4621"
CODEX = """model_provider = "threadkeep"

[model_providers.threadkeep]
name = "threadkeep"
base_url = "http://127.0.0.1:4621/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
supports_websockets = true
"""
# A client, its file below the home, settings a user may have, and those settings once the client is set up.
SETTINGS = {
    "claude": (
        ".claude/settings.json",
        '{\n  "model": "opus"\n}\n',
        '{\n  "model": "opus",\n  "env": {\n    "ANTHROPIC_BASE_URL": "http://127.0.0.1:4621",\n'
        '    "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"\n  }\n}\n',
    ),
    "codex": (
        ".codex/config.toml",
        '#:schema codex.json\n# The model.\nmodel = "gpt-6.1"\n\n[tools]  # mine\nweb_search = true',
        '#:schema codex.json\nmodel_provider = "threadkeep"\n# The model.\nmodel = "gpt-6.1"\n\n'
        "[tools]  # mine\nweb_search = true\n\n" + CODEX.partition("\n\n")[2],
    ),
    "opencode": (
        ".config/opencode/opencode.jsonc",
        '{\n  // mine\n  "provider": {"openai": {"options": {"baseURL": "https://eu.api.openai.com/v1"}}},\n}\n',
        '{\n  // mine\n  "provider": {"openai": {"options": {"baseURL": "http://127.0.0.1:4621/v1"}}, '
        '"anthropic": {"options": {"baseURL": "http://127.0.0.1:4621/v1"}}},\n}\n',
    ),
    "pi": (
        ".pi/agent/models.json",
        '{"providers": {}}\n',
        '{"providers": {"openai": {"baseUrl": "http://127.0.0.1:4621/v1"}, "anthropic": {"baseUrl": "http://127.0.0.1:4621"}}}\n',
    ),
    "qwen": (
        ".qwen/settings.json",
        '{"security": {"auth": {"selectedType": "openai"}}}',
        '{"security": {"auth": {"selectedType": "openai", "baseUrl": "http://127.0.0.1:4621/v1"}}}',
    ),
    "cline": (
        ".cline/data/settings/providers.json",
        '{"providers": {"anthropic": {"settings": {"apiKey": "sk-secret"}}}}',
        '{"providers": {"anthropic": {"settings": {"apiKey": "sk-secret", "baseUrl": "http://127.0.0.1:4621/v1"}}}}',
    ),
    "aider": (
        ".aider.conf.yml",
        "# mine\nmodel: sonnet\nopenai-api-base: https://eu.api.openai.com/v1 # Europe\n",
        "# mine\nmodel: sonnet\nopenai-api-base: http://127.0.0.1:4621/v1 # Europe\n\n"
        "set-env:\n  - ANTHROPIC_API_BASE=http://127.0.0.1:4621\n",
    ),
}


def write(home: Path, client: str, text: str | None = None) -> Path:
    file = home / SETTINGS[client][0]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SETTINGS[client][1] if text is None else text)
    return file


@pytest.mark.parametrize("client", SETTINGS)
def test_each_client_is_pointed_at_the_gateway_and_back(cli: Cli, home: Path, client: str) -> None:
    """Comments and form stay; the mode stays; a second run changes nothing; an undo gives the very bytes."""
    file = write(home, client)
    file.chmod(0o640)
    shown = cli("setup", client)
    assert (shown.code, file.read_text()) == (0, SETTINGS[client][1])
    assert (cli("setup", client, "--yes").code, file.read_text()) == (0, SETTINGS[client][2])
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert "set up already" in cli("setup", client, "--yes").out
    assert (cli("setup", client, "--undo", "--yes").code, file.read_text()) == (0, SETTINGS[client][1])


@pytest.mark.parametrize("client", [client for client in SETTINGS if client != "cline"])
def test_a_file_that_was_not_there_goes_again(cli: Cli, home: Path, client: str) -> None:
    """It is made for its owner alone."""
    cli("setup", client, "--yes")
    made = [path for path in (home / SETTINGS[client][0]).parent.iterdir() if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o600]
    cli("setup", client, "--undo", "--yes")
    assert [path.exists() for path in made] == [False]


@pytest.mark.parametrize("client", SETTINGS)
def test_another_address_takes_the_place_of_the_first(cli: Cli, home: Path, client: str) -> None:
    """Undoing goes to before the first run."""
    file = write(home, client)
    cli("setup", client, "--yes")
    cli("setup", client, "--yes", "--url", "http://127.0.0.1:9999/v1/")
    assert file.read_text() == SETTINGS[client][2].replace(":4621", ":9999")
    cli("setup", client, "--undo", "--yes")
    assert file.read_text() == SETTINGS[client][1]


@pytest.mark.parametrize(
    ("client", "old", "new"),
    [
        ("claude", '"model": "opus"', '"model": "sonnet"'),
        ("codex", "# The model.", "# Our model."),
        ("opencode", "// mine", "// ours"),
        ("pi", "{", '{"a": 1, '),
        ("qwen", '"selectedType": "openai"', '"selectedType": "anthropic"'),
        ("cline", "sk-secret", "sk-other"),
        ("aider", "model: sonnet", "model: opus"),
    ],
)
def test_an_undo_keeps_what_was_edited_since(cli: Cli, home: Path, client: str, old: str, new: str) -> None:
    """Only our part goes."""
    file = write(home, client)
    cli("setup", client, "--yes")
    file.write_text(file.read_text().replace(old, new, 1))
    [change] = cli("setup", client, "--undo", "--yes", "--json").json["changes"]
    assert (change["left"], file.read_text().split()) == ([], SETTINGS[client][1].replace(old, new, 1).split())


@pytest.mark.parametrize("client", ["codex", "claude", "aider"])
def test_line_ends_stay_as_they_are(cli: Cli, home: Path, client: str) -> None:
    """Ours have them too, and an undo after an edit leaves them."""
    file = write(home, client, "")
    file.write_bytes(SETTINGS[client][1].replace("\n", "\r\n").encode())
    cli("setup", client, "--yes")
    assert file.read_bytes().decode() == SETTINGS[client][2].replace("\n", "\r\n")
    file.write_bytes(file.read_bytes() + b"\r\n")
    cli("setup", client, "--undo", "--yes")
    assert file.read_bytes().decode().rstrip().split("\r\n") == SETTINGS[client][1].rstrip().split("\n")


@pytest.mark.parametrize(
    ("client", "edited", "left"),
    [
        ("claude", ":4621", "env.ANTHROPIC_BASE_URL"),
        ("codex", ":4621", "model_providers.threadkeep"),
        ("aider", ":4621/v1", "openai-api-base"),
    ],
)
def test_our_part_is_left_where_it_was_edited(cli: Cli, home: Path, client: str, edited: str, left: str) -> None:
    """The undo says so, and takes back the rest."""
    file = write(home, client)
    cli("setup", client, "--yes")
    file.write_text(file.read_text().replace(edited, ":5000", 1))
    [change] = cli("setup", client, "--undo", "--yes", "--json").json["changes"]
    assert change["left"] == [f"{left} was edited since threadkeep wrote it; it is left as it is"]
    assert (":5000" in file.read_text(), "FIRST_PARTY" in file.read_text()) == (True, False)
    assert 'model_provider = "threadkeep"' not in file.read_text()


def test_gateway_and_hooks_of_one_file_go_one_by_one(cli: Cli, home: Path) -> None:
    """Each has a note of its own; `--undo` alone takes back both."""
    file = write(home, "claude")
    cli("setup", "claude", "--yes")
    cli("setup", "claude", "--hooks", "--yes")
    cli("setup", "claude", "--gateway", "--undo", "--yes")
    assert sorted(json.loads(file.read_text())) == ["hooks", "model"]
    cli("setup", "claude", "--gateway", "--yes")
    cli("setup", "--undo", "--yes")
    assert json.loads(file.read_text()) == {"model": "opus"}


@pytest.mark.parametrize(
    ("client", "text", "says"),
    [
        ("codex", 'a = 1\nmodel = "x\n', "line 2: this is not valid TOML"),
        ("claude", '{\n  "env": {"A": "1"\n', "line 3: this is not valid JSON (Expecting ',' delimiter)"),
        ("claude", '{"env": []}', "env is not an object"),
        ("codex", 'model_providers = {a = {name = "a"}}\n', "model_providers.threadkeep cannot be set here by an edit in place"),
        ("codex", 'a = """\n[x]\n"""\nmodel_provider = "a"\n', 'write it yourself: model_provider = "threadkeep"'),
        ("codex", '[model_providers.threadkeep]\nbase_url = "http://x"\n', "[model_providers.threadkeep] is there already"),
        ("aider", "{model: sonnet}\n", "line 1: setup understands plain `key: value` lines only"),
        ("aider", "set-env:\n  - A=1\n", "set-env is there already; add ANTHROPIC_API_BASE=http://127.0.0.1:4621 to it yourself"),
        ("cline", "{}", "run `cline auth -p anthropic -k KEY -m MODEL` (or -p openai-native) first"),
    ],
)
def test_settings_that_cannot_be_changed_are_left_alone(cli: Cli, home: Path, client: str, text: str, says: str) -> None:
    """The error names the file, the line where there is one, and what to do; not a byte changes."""
    file = write(home, client, text)
    ran = cli("setup", client, "--gateway", "--yes")
    assert (ran.code, str(file) in ran.err, says in ran.err, file.read_text()) == (1, True, True, text), ran.err


def test_an_unreadable_file_is_an_error(cli: Cli, home: Path) -> None:
    """A folder where the settings should be, for one."""
    (home / ".claude/settings.json").mkdir(parents=True)
    ran = cli("setup", "claude", "--yes")
    assert (ran.code, "settings.json cannot be read" in ran.err) == (1, True)


def test_an_unknown_client_is_named_with_a_guess(cli: Cli) -> None:
    """And the ones there are."""
    ran = cli("setup", "cluade-code")
    known = "claude, codex, opencode, pi, qwen, cline, aider"
    assert ran.err == f"threadkeep: setup does not know a client 'cluade-code'; did you mean claude? it knows {known}\n"


def test_no_secret_is_shown_or_kept(cli: Cli, home: Path) -> None:
    """Neither the diff nor the note has a key that stands beside our line."""
    text = '{\n  "providers": {\n    "anthropic": {\n      "settings": {\n        "apiKey": "sk-secret"\n      }\n    }\n  }\n}\n'
    write(home, "cline", text)
    ran = cli("setup", "cline", "--yes")
    notes = "".join(note.read_text() for note in (home / ".local/share/threadkeep/client-settings").iterdir())
    assert ("sk-secret" in ran.out, '"apiKey": "***"' in ran.out, "sk-secret" in notes) == (False, True, False)


def test_an_undo_after_the_file_was_deleted_drops_the_note(cli: Cli, home: Path) -> None:
    """A later undo has nothing to say."""
    cli("setup", "claude", "--yes")
    (home / ".claude/settings.json").unlink()
    assert "nothing of threadkeep here" in cli("setup", "claude", "--undo", "--yes").out
    assert cli("setup", "claude", "--undo", "--yes").out == "Nothing to undo: threadkeep has written nothing here.\n"


def test_an_undo_finds_the_file_that_was_written(cli: Cli, home: Path) -> None:
    """Also when opencode has another one by then."""
    cli("setup", "opencode", "--yes")
    made = home / ".config/opencode/opencode.json"
    write(home, "opencode")
    assert (made.exists(), cli("setup", "opencode", "--undo", "--yes").code, made.exists()) == (True, 0, False)


def test_the_working_folder_decides_nothing(cli: Cli, home: Path) -> None:
    """Its settings may come from elsewhere, and these last."""
    (home / "threadkeep.toml").write_text("port = 9\n")
    assert cli("setup", "pi", "--json").json["gateway"] == URL


def test_a_key_in_the_address_is_not_shown(cli: Cli, home: Path) -> None:
    """It is written, for the client needs it."""
    ran = cli("setup", "pi", "--url", "http://127.0.0.1:1/k/tkk_secret", "--yes")
    assert ("tkk_secret" in ran.out, "/k/***/v1" in ran.out) == (False, True)
    assert "http://127.0.0.1:1/k/tkk_secret/v1" in (home / ".pi/agent/models.json").read_text()


def test_a_chatgpt_login_gets_hooks_by_default(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That login does not pass through a base URL; with an API key in auth.json the gateway is used with that key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    login = home / ".codex/auth.json"
    login.parent.mkdir()
    login.write_text('{"OPENAI_API_KEY": null, "tokens": {"access_token": "x"}}')
    assert cli("setup", "codex", "--json").json["changes"][0]["way"] == "hooks"
    assert "logged in with ChatGPT" in " ".join(cli("setup", "codex", "--gateway").out.split())
    login.write_text('{"OPENAI_API_KEY": "sk-x"}')
    [change] = cli("setup", "codex", "--json").json["changes"]
    assert (change["way"], "requires_openai_auth = true" in change["diff"]) == ("gateway", True)


def test_without_a_client_it_lists_what_is_there(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By command on PATH and by settings folder; what is set up; what to type."""
    programs = home / "bin"
    programs.mkdir()
    for name in ("claude", "pi"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("THREADKEEP_PORT", "1")
    write(home, "codex")
    write(home, "qwen", "{")
    cli("setup", "claude", "--yes")
    listed = {row["client"]: row for row in cli("setup", "--json").json["clients"]}
    assert {name: (row["installed"], row["set_up"], row["next"]) for name, row in listed.items()} == {
        "claude": (True, ["gateway"], "threadkeep setup claude --undo"),
        "codex": (False, [], "threadkeep setup codex [--hooks]"),
        "opencode": (False, [], ""),
        "pi": (True, [], "threadkeep setup pi"),
        "qwen": (False, [], "threadkeep setup qwen"),
        "cline": (False, [], ""),
        "aider": (False, [], ""),
    }
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("setup").out.splitlines()
    assert lines[:3] == [
        "client    found          set up      what to type",
        "claude    yes            gateway     threadkeep setup claude --undo",
        "codex     settings only  -           threadkeep setup codex [--hooks]",
    ]
    assert (max(map(len, lines)) <= 80, "No gateway answers at http://127.0.0.1:1" in "\n".join(lines)) == (True, True)


def test_it_says_how_to_start_the_gateway(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """And which providers it asks, where an address is replaced."""
    monkeypatch.setenv("THREADKEEP_PORT", "1")
    told = " ".join(cli("setup", "pi").out.split())
    assert (
        "No gateway answers at http://127.0.0.1:1. Start it with `threadkeep service install`, or with `threadkeep serve`" in told
    )


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("", False)])
def test_at_a_terminal_it_asks(home: Path, answer: str, written: bool) -> None:  # noqa: FBT001
    """Only a yes changes the file."""
    file = write(home, "claude")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "threadkeep.cli", "setup", "claude"]
    environ = {**surroundings(), "HOME": str(home)}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, cwd=home)
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    said = b""
    while True:
        try:
            said += (more := os.read(ours, 65536))
        except OSError:
            break
        if not more:
            break
    os.close(ours)
    assert (process.wait(), b"Make this change? [y/N]" in said) == (0, True), said
    assert file.read_text() == SETTINGS["claude"][2 if written else 1]
