"""Programs that keep the gateway running: systemd's user manager on Linux, launchd on macOS."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from threadkeep.errors import BadInput, NoServiceManager, ServiceFailed

SECONDS = 60
UNIT = "threadkeep.service"
LABEL = "threadkeep.gateway"
WRITTEN_BY = "# Written by `threadkeep service install`; `threadkeep service remove` deletes it."


class ServiceManager(Protocol):
    """What installs, watches and removes the service. `path` is the file that describes it, `logs` says where its output is."""

    path: Path
    logs: str

    def check(self) -> None:
        """Make sure that the manager can be asked.

        Raises:
            NoServiceManager: It is not there, or not for this user.
        """

    def describe(self, command: Sequence[str]) -> str:
        """Return the text of the file that runs `command`."""

    def command_in(self, text: str) -> list[str]:
        """Return the command that a file runs; empty where it says none."""

    def start(self) -> None:
        """Read the file, and start the service now and at every login; one that runs is started anew.

        Raises:
            ServiceFailed: The manager refused.
        """

    def stop(self) -> None:
        """Stop the service, and start it at no login any more; one that does not run is no failure."""

    def is_running(self) -> bool:
        """Whether its process is there."""

    def forget(self) -> None:
        """Let the manager notice that the file is gone."""


class Systemd:
    """systemd's manager of one user."""

    def __init__(self, home: Path) -> None:
        named = os.environ.get("XDG_CONFIG_HOME")
        self.path = (Path(named) if named else home / ".config") / "systemd" / "user" / UNIT
        self.logs = "journalctl --user -u threadkeep"

    def check(self) -> None:
        if shutil.which("systemctl") is None:
            raise NoServiceManager("systemd is not on this machine (there is no systemctl)")
        asked = _run(["systemctl", "--user", "show-environment"])
        if asked.returncode != 0:
            raise NoServiceManager(
                f"systemd has no session for this user ({_said(asked)}), as in a container or after su or sudo; "
                "log in as this user, or have root run `loginctl enable-linger USER`, and try again"
            )

    def describe(self, command: Sequence[str]) -> str:
        return f"""{WRITTEN_BY}
[Unit]
Description=threadkeep gateway
After=network.target
# A gateway that cannot start is not tried for ever.
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
ExecStart={" ".join(_systemd_word(word) for word in command)}
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

    def command_in(self, text: str) -> list[str]:
        found = re.search(r"^ExecStart=(.+)$", text, flags=re.MULTILINE)
        return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(found[1])] if found else []

    def start(self) -> None:
        self.forget()
        for verb in ("enable", "restart"):
            _run_checked(["systemctl", "--user", verb, UNIT])

    def stop(self) -> None:
        _run(["systemctl", "--user", "disable", "--now", UNIT])

    def is_running(self) -> bool:
        return _run(["systemctl", "--user", "is-active", "--quiet", UNIT]).returncode == 0

    def forget(self) -> None:
        _run_checked(["systemctl", "--user", "daemon-reload"])


class Launchd:
    """launchd's agents of one user."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self.log_file = home / "Library" / "Logs" / "threadkeep.log"
        self.logs = str(self.log_file)
        self.domain = f"gui/{os.getuid()}"

    def check(self) -> None:
        if shutil.which("launchctl") is None:
            raise NoServiceManager("launchd is not on this machine (there is no launchctl)")

    def describe(self, command: Sequence[str]) -> str:
        agent = {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "WorkingDirectory": str(self.home),
            "RunAtLoad": True,
            # Started again after a crash, not after it was stopped.
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": 90,
            "Umask": 0o077,
            "StandardOutPath": self.logs,
            "StandardErrorPath": self.logs,
        }
        return plistlib.dumps(agent, sort_keys=False).decode("utf-8")

    def command_in(self, text: str) -> list[str]:
        try:
            words = plistlib.loads(text.encode("utf-8"))["ProgramArguments"]
        except (plistlib.InvalidFileException, KeyError, ValueError):
            return []
        return [str(word) for word in words]

    def start(self) -> None:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self.stop()
        _run_checked(["launchctl", "bootstrap", self.domain, str(self.path)])

    def stop(self) -> None:
        _run(["launchctl", "bootout", f"{self.domain}/{LABEL}"])

    def forget(self) -> None:
        """Nothing to do: `stop` made launchd forget the agent."""

    def is_running(self) -> bool:
        asked = _run(["launchctl", "print", f"{self.domain}/{LABEL}"])
        return asked.returncode == 0 and "state = running" in asked.stdout


def manager_for(system: str, *, home: Path) -> ServiceManager:
    """Return the manager of an operating system, as `platform.system()` names it.

    Raises:
        NoServiceManager: threadkeep knows none for it.
    """
    if system == "Linux":
        return Systemd(home)
    if system == "Darwin":
        return Launchd(home)
    raise NoServiceManager(f"threadkeep knows systemd and launchd, and {system or 'this system'} has neither")


def _systemd_word(word: str) -> str:
    """Return a word as a unit file writes it: no specifier, no variable and no space of its own takes effect."""
    if any(character in word for character in "\n\r\0"):
        raise BadInput("a line end cannot stand in a service's command")
    plain = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$~-]+", plain):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise ServiceFailed(shlex.join(words), reason=f"it took longer than {SECONDS} seconds") from error
    except OSError as error:
        raise ServiceFailed(shlex.join(words), reason=error.strerror or str(error)) from error


def _run_checked(words: Sequence[str]) -> None:
    ran = _run(words)
    if ran.returncode != 0:
        raise ServiceFailed(shlex.join(words), reason=_said(ran))


def _said(ran: subprocess.CompletedProcess[str]) -> str:
    return " ".join((ran.stderr or ran.stdout).split())
