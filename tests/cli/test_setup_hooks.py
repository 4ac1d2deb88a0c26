"""`threadkeep setup CLIENT --hooks`: a client's hooks are shown first, written beside others, and taken back to the byte."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.stories import Cli

SETTINGS = """{
    "model": "opus",   "permissions": {"allow": ["Bash(ls:*)"]},
    "hooks": {
        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ],
        "PreCompact": [{"matcher": "auto", "hooks": [{"type": "command", "command": "cp a b"}]}]
    },
    "z": 1.50
}
"""
FILES = {"codex": ".codex/hooks.json", "claude": ".claude/settings.json"}


@pytest.mark.parametrize("client", FILES)
def test_without_a_terminal_it_shows_the_change_and_makes_none(cli: Cli, home: Path, client: str) -> None:
    """The diff has the file's whole new content; no file and no folder appears."""
    ran = cli("setup", client, "--hooks")
    file = home / FILES[client]
    assert (ran.code, file.parent.exists()) == (0, False)
    assert f"To do it: threadkeep setup {client} --hooks --yes" in ran.out
    added = [line[1:] for line in ran.out.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert set(json.loads("\n".join(added))["hooks"]) == {"PreCompact", "SessionStart"}
    assert f"+++ {file}" in ran.out


@pytest.mark.parametrize(("client", "hook_name"), [("codex", "codex"), ("claude", "claude-code")])
def test_what_is_written_is_what_was_shown(cli: Cli, home: Path, client: str, hook_name: str) -> None:
    """A file that was not there is for its owner alone; the handlers call this threadkeep, for that client, and never fail."""
    [shown] = cli("setup", client, "--hooks", "--json").json["changes"]
    [done] = cli("setup", client, "--hooks", "--json", "--yes").json["changes"]
    file = home / FILES[client]
    assert (shown["diff"], shown["written"]) == (done["diff"], False)
    assert (done["file"], done["written"], stat.S_IMODE(file.stat().st_mode)) == (str(file), True, 0o600)
    hooks = json.loads(file.read_text())["hooks"]
    commands = [handler["command"] for groups in hooks.values() for group in groups for handler in group["hooks"]]
    assert [f" hook run {hook_name}" in command and command.endswith(" || exit 0") for command in commands] == [True] * 5
    assert [group.get("matcher") for group in (*hooks["PreCompact"], *hooks["SessionStart"])] == [None, "compact"]


def test_what_the_user_wrote_keeps_its_form(cli: Cli, home: Path) -> None:
    """Other hooks, settings, order, spaces and the spelling of numbers stay; taking it back gives the very bytes."""
    file = home / FILES["claude"]
    file.parent.mkdir()
    file.write_text(SETTINGS)
    file.chmod(0o644)
    cli("setup", "claude", "--hooks", "--yes")
    installed = file.read_text()
    kept = [line for line in SETTINGS.splitlines() if "PreCompact" not in line and line.strip() not in ("},", "]")]
    assert [line for line in kept if line.rstrip(",") not in installed] == []
    assert [json.loads(installed)[name] for name in ("model", "z")] == ["opus", 1.5]
    assert len(json.loads(installed)["hooks"]["PreCompact"]) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert (cli("setup", "claude", "--undo", "--yes").code, file.read_text()) == (0, SETTINGS)


def test_setting_up_again_changes_nothing(cli: Cli, home: Path) -> None:
    """The second time there is nothing to write; another store replaces the hooks; undoing goes to before the first."""
    runs = [cli("setup", "codex", "--hooks", "--yes", "--json", *more) for more in ((), (), ("--store", home / "other.db"))]
    assert [run.json["changes"][0]["written"] for run in runs] == [True, False, True]
    hooks = json.loads((home / FILES["codex"]).read_text())["hooks"]
    assert {event: len(groups) for event, groups in hooks.items()} == {"PreCompact": 1, "SessionStart": 1}
    assert f"--store {home}/other.db" in hooks["PreCompact"][0]["hooks"][0]["command"]
    cli("setup", "codex", "--undo", "--yes")
    assert not (home / FILES["codex"]).exists()


def test_a_file_that_was_changed_since_loses_our_hooks_alone(cli: Cli, home: Path) -> None:
    """What the user added afterwards stays where it is."""
    file = home / FILES["claude"]
    file.parent.mkdir()
    file.write_text('{"hooks": {"Stop": []}, "a": 1}')
    cli("setup", "claude", "--hooks", "--yes")
    file.write_text(file.read_text().replace('"a": 1', '"a": 2'))
    cli("setup", "claude", "--undo", "--yes")
    assert file.read_text() == '{"hooks": {"Stop": []}, "a": 2}'


def test_hooks_that_were_edited_are_left(cli: Cli, home: Path) -> None:
    """An undo says which part was edited and takes back only the other."""
    file = home / FILES["codex"]
    cli("setup", "codex", "--hooks", "--yes")
    settings = json.loads(file.read_text())
    settings["hooks"]["PreCompact"][0]["hooks"][0]["timeout"] = 5
    file.write_text(json.dumps(settings))
    [change] = cli("setup", "codex", "--undo", "--yes", "--json").json["changes"]
    assert change["left"] == ["hooks.PreCompact has no entry as threadkeep wrote it; what is there is left as it is"]
    assert json.loads(file.read_text()) == {"hooks": {"PreCompact": settings["hooks"]["PreCompact"]}}


def test_hooks_without_a_note_are_found_by_what_they_call(cli: Cli, home: Path) -> None:
    """Settings copied from another machine lose their hooks too."""
    file = home / FILES["codex"]
    cli("setup", "codex", "--hooks", "--yes")
    for note in (home / ".local/share/threadkeep/client-settings").iterdir():
        note.unlink()
    cli("setup", "codex", "--undo", "--yes")
    assert json.loads(file.read_text()) == {}


def test_taking_back_what_is_not_there_is_no_change(cli: Cli, home: Path) -> None:
    """It says so, and leaves another's settings alone."""
    file = home / FILES["codex"]
    file.parent.mkdir()
    file.write_text('{"hooks": {}}')
    ran = cli("setup", "codex", "--undo", "--hooks", "--yes")
    assert (ran.code, "nothing of threadkeep here" in " ".join(ran.out.split()), file.read_text()) == (0, True, '{"hooks": {}}')
    assert cli("setup", "codex", "--undo", "--yes").out == "Nothing to undo: threadkeep has written nothing here.\n"


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"PreCompact": {}}}', "// a comment\n{}"])
def test_settings_that_cannot_be_understood_are_left_alone(cli: Cli, home: Path, text: str) -> None:
    """A clear error, and not a byte changed."""
    file = home / FILES["claude"]
    file.parent.mkdir()
    file.write_text(text)
    ran = cli("setup", "claude", "--hooks", "--yes")
    assert (ran.code, f"{file} cannot be used: " in ran.err, file.read_text()) == (
        1,
        True,
        text,
    )


def test_a_link_stays_a_link(cli: Cli, home: Path) -> None:
    """Settings kept elsewhere and linked to are changed where they are."""
    real = home / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    file = home / FILES["claude"]
    file.parent.mkdir()
    file.symlink_to(real)
    cli("setup", "claude", "--hooks", "--yes")
    assert (file.is_symlink(), "PreCompact" in real.read_text()) == (True, True)


def test_a_project_has_settings_of_its_own(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--scope project` writes below the working folder; the variables of the clients move the user's own."""
    project = home / "app"
    project.mkdir()
    monkeypatch.chdir(project)
    [change] = cli("setup", "codex", "--hooks", "--scope", "project", "--json").json["changes"]
    assert change["file"] == str(project / FILES["codex"])
    monkeypatch.setenv("CODEX_HOME", str(home / "c"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "d"))
    plans = [cli("setup", client, "--hooks", "--json").json["changes"][0]["file"] for client in ("codex", "claude")]
    assert plans == [str(home / "c" / "hooks.json"), str(home / "d" / "settings.json")]


def test_a_password_is_not_written_into_another_s_settings(cli: Cli, home: Path) -> None:
    """An address with a password is refused; the variable is the place for it."""
    ran = cli("setup", "codex", "--hooks", "--yes", "--store", "postgresql://me:secret@db/threadkeep")
    assert (ran.code, "THREADKEEP_STORE" in ran.err, (home / ".codex").exists()) == (1, True, False)


def test_clients_without_hooks_say_so(cli: Cli) -> None:
    """The error names what works instead."""
    ran = cli("setup", "opencode", "--hooks")
    assert (ran.code, ran.err) == (1, "threadkeep: opencode has no hooks for this; use `threadkeep setup opencode --gateway`\n")
