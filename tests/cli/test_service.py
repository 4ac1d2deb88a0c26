"""`threadkeep service`: the file it writes, what it asks systemd or launchd for, and what it says where neither is there."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from threadkeep.cli.service import Launchd, Systemd, find_url
from threadkeep.client import Config

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.stories import Cli

PROGRAM = Path(sys.executable).parent / "threadkeep"
UNIT = f"""# Written by `threadkeep service install`; `threadkeep service remove` deletes it.
[Unit]
Description=threadkeep gateway
After=network.target
# A gateway that cannot start is not tried for ever.
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
ExecStart={PROGRAM} serve --port 1 --auto-compact on
WorkingDirectory=%h
Restart=on-failure
RestartSec=2
# Running answers get a minute to come to their end.
TimeoutStopSec=90
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


@pytest.fixture
def calls(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A `systemctl` and a `launchctl` that write down what they are asked; a file `refuse` holds what they fail at."""
    programs = home / "bin"
    programs.mkdir()
    (home / "refuse").write_text("is-active\nstate\n")
    for name in ("systemctl", "launchctl"):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {home}/calls\n'
            f'for word in $(cat {home}/refuse); do case "$*" in *"$word"*) echo "no $word" >&2; exit 1;; esac; done\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("platform.system", lambda: "Linux")

    def asked() -> list[str]:
        file = home / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    return asked


def test_the_unit_is_shown_first(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """Without a terminal and without --yes nothing is written or started."""
    ran = cli("service", "install", "--port", "1")
    assert (ran.code, ran.out.startswith(UNIT), "run the same command with --yes" in ran.out) == (0, True, True)
    assert ((home / ".config/systemd").exists(), calls()) == (False, ["systemctl --user show-environment"])


def test_installing_writes_the_unit_and_starts_it(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """It is enabled, and started anew where it ran; a gateway that does not come up is said, with its log."""
    ran = cli("service", "install", "--port", "1", "--yes")
    assert (home / ".config/systemd/user/threadkeep.service").read_text() == UNIT
    assert calls() == [
        "systemctl --user show-environment",
        "systemctl --user daemon-reload",
        "systemctl --user enable threadkeep.service",
        "systemctl --user restart threadkeep.service",
        "systemctl --user is-active --quiet threadkeep.service",
    ]
    assert (ran.code, "its log: journalctl --user -u threadkeep" in " ".join(ran.out.split())) == (1, True)


def test_what_is_said_here_is_written_into_the_unit(
    cli: Cli, home: Path, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flags and variables; paths are whole, spaces and % are quoted, settings of the user's file are left to it."""
    (home / ".config/threadkeep").mkdir(parents=True)
    (home / ".config/threadkeep/threadkeep.toml").write_text('auto_compact = "background"\naccess_log = "off"\n')
    monkeypatch.setenv("THREADKEEP_ANTHROPIC_UPSTREAM", "http://127.0.0.1:9/100%")
    ran = cli("service", "install", "--store", "my threads.db", "--keys", "keys.toml", "--host", "0.0.0.0", "--json")
    command = next(line for line in ran.json["text"].splitlines() if line.startswith("ExecStart="))
    assert command == (
        f'ExecStart={PROGRAM} serve --store "{home}/my threads.db" --anthropic-upstream http://127.0.0.1:9/100%%'
        f" --keys {home}/keys.toml --host 0.0.0.0 --auto-compact background"
    )
    assert ran.json["url"] == "http://127.0.0.1:4621"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ("--host", "0.0.0.0"),
            "refusing to listen on 0.0.0.0",
        ),
        (("--store", "postgresql://me:pw@db/x"), "has a password in it"),
    ],
)
def test_an_unsafe_service_is_refused(cli: Cli, home: Path, calls: Callable[[], list[str]], flags: list[str], says: str) -> None:
    """Nothing is written."""
    ran = cli("service", "install", "--yes", *flags)
    assert (ran.code, says in ran.err, (home / ".config").exists()) == (1, True, False)


def test_status_says_what_is_there(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """Installed, running, answering, and where the logs are; the port is the one of the unit."""
    logs = "journalctl --user -u threadkeep"
    file = home / ".config/systemd/user/threadkeep.service"
    known = {"file": str(file), "running": False, "answers": False, "logs": logs}
    ran = cli("service", "status", "--json")
    assert (ran.code, {**ran.json, "url": ""}) == (1, {**known, "installed": False, "url": ""})
    cli("service", "install", "--port", "1", "--yes")
    (home / "refuse").write_text("")
    calls()
    ran = cli("service", "status", "--json")
    assert (ran.code, ran.json) == (1, {**known, "installed": True, "running": True, "url": "http://127.0.0.1:1"})
    assert calls() == ["systemctl --user is-active --quiet threadkeep.service"]
    assert cli("service", "status").out.splitlines()[0].split() == ["installed", "yes", str(file)]


def test_removing_stops_and_deletes(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """A second time there is nothing to do."""
    cli("service", "install", "--port", "1", "--yes")
    calls()
    assert cli("service", "remove", "--json").json["removed"] is True
    assert calls() == [
        "systemctl --user show-environment",
        "systemctl --user disable --now threadkeep.service",
        "systemctl --user daemon-reload",
    ]
    assert list((home / ".config/systemd/user").iterdir()) == []
    assert (cli("service", "remove", "--json").json["removed"], calls()) == (False, [])


def test_another_s_unit_is_not_deleted(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """One that has our name and was not written by us."""
    file = home / ".config/systemd/user/threadkeep.service"
    file.parent.mkdir(parents=True)
    file.write_text("[Service]\nExecStart=/bin/true\n")
    ran = cli("service", "remove")
    assert (ran.code, "was not written by threadkeep" in ran.err, file.exists(), calls()) == (1, True, True, [])


def test_a_port_that_another_gateway_has_is_refused(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """Nothing is written: the service would fail, and the other gateway would answer for it."""
    with HTTPServer(("127.0.0.1", 0), Healthy) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        ran = cli("service", "install", "--port", other.server_port, "--yes")
    assert (ran.code, ran.err.partition(";")[0]) == (1, f"threadkeep: 127.0.0.1:{other.server_port} is in use")
    assert (home / ".config/systemd").exists() is False


class Healthy(BaseHTTPRequestHandler):
    """Answers everything with 200."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_failing_manager_is_quoted(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """The command that failed and what it said."""
    (home / "refuse").write_text("restart")
    ran = cli("service", "install", "--yes")
    assert (ran.code, ran.err) == (
        1,
        "threadkeep: `systemctl --user restart threadkeep.service` failed: no restart; "
        "`threadkeep service status` shows what is there\n",
    )


def test_without_a_session_it_says_what_to_do(cli: Cli, home: Path, calls: Callable[[], list[str]]) -> None:
    """As in a container."""
    (home / "refuse").write_text("show-environment")
    ran = cli("service", "install", "--yes")
    assert (ran.code, "no session for this user" in ran.err, "run `threadkeep serve` yourself" in ran.err) == (1, True, True)


def test_without_systemd_it_says_so(cli: Cli, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """And on a system that threadkeep has no service for."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert "there is no systemctl" in cli("service", "install").err
    monkeypatch.setattr("platform.system", lambda: "Windows")
    assert "Windows has neither" in cli("service", "status").err


def test_on_a_mac_it_is_a_launch_agent(
    cli: Cli, home: Path, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written, started, looked at and removed through launchctl."""
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    agent = home / "Library/LaunchAgents/threadkeep.gateway.plist"
    log = str(home / "Library/Logs/threadkeep.log")
    (home / "refuse").write_text("print")
    cli("service", "install", "--port", "1", "--yes")
    assert plistlib.loads(agent.read_bytes()) == {
        "Label": "threadkeep.gateway",
        "ProgramArguments": [str(PROGRAM), "serve", "--port", "1", "--auto-compact", "on"],
        "WorkingDirectory": str(home),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": 90,
        "Umask": 0o077,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    gui = f"gui/{os.getuid()}"
    assert calls() == [
        f"launchctl bootout {gui}/threadkeep.gateway",
        f"launchctl bootstrap {gui} {agent}",
        f"launchctl print {gui}/threadkeep.gateway",
    ]
    assert cli("service", "status", "--json").json["url"] == "http://127.0.0.1:1"
    cli("service", "remove")
    assert (agent.exists(), calls()[-1]) == (False, f"launchctl bootout {gui}/threadkeep.gateway")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(home: Path) -> None:
    """Words with spaces, quotes, dollars and percent signs included."""
    text = Systemd(home).describe(("/bin/true", "a b", 'c"d', "$HOME", "100%", "back\\slash"))
    unit = home / "threadkeep.service"
    unit.write_text(text)
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(home)}
    ran = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], capture_output=True, text=True, check=False, env=environ
    )
    assert (ran.returncode, [line for line in ran.stderr.splitlines() if "threadkeep.service" in line]) == (0, []), ran.stderr


@pytest.mark.parametrize("kind", [Systemd, Launchd])
def test_where_it_listens_is_read_back_from_its_file(home: Path, kind: type[Systemd] | type[Launchd]) -> None:
    """Whatever else stands in it; what it does not say is as it is set."""
    command = ["/opt/my programs/threadkeep", "serve", "--store", 'a "b" $c 100% \\ d', "--host", "::1", "--port", "7"]
    manager = kind(home)
    urls = [find_url(manager.describe(words), Config(port=9)) for words in (command, command[:-2], command[:-4])]
    assert urls == ["http://[::1]:7", "http://[::1]:9", "http://127.0.0.1:9"]
