"""`threadkeep service`: the gateway as a service of this user, started at login and kept running.

systemd's user manager runs it on Linux, launchd on macOS.
"""

from __future__ import annotations

import os
import platform
import plistlib
import re
import shlex
import shutil
import subprocess
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from threadkeep.adapters.client_settings.clients import find_own_program
from threadkeep.adapters.client_settings.settings_file import write_file
from threadkeep.cli.output import ask_user, open_screen, print_json
from threadkeep.cli.safe_text import clean
from threadkeep.cli.settings import read_config, read_settings
from threadkeep.client import Config, Setting, build_config
from threadkeep.errors import InvalidArgument, NoServiceManager, PortTaken, ServiceFailed, UnsafeBind, UnusableFile
from threadkeep.gateway.http.guards import is_loopback
from threadkeep.launch.processes import is_answering

START_SECONDS = 15.0
MANAGER_SECONDS = 60
USER_FILE = "~/.config/threadkeep/threadkeep.toml"
UNIT = "threadkeep.service"
LABEL = "threadkeep.gateway"
WRITTEN_BY = "# Written by `threadkeep service install`; `threadkeep service remove` deletes it."
# Settings that `serve` takes as flags.
FLAGS = {
    "store": "--store",
    "host": "--host",
    "port": "--port",
    **{f"{provider}_upstream": f"--{provider}-upstream" for provider in Config().upstreams},
    "upstream_dialect": "--upstream-dialect",
    "keys_file": "--keys",
    "access_log": "--access-log",
}


class Systemd:
    """systemd's manager of one user."""

    def __init__(self, home: Path) -> None:
        named = os.environ.get("XDG_CONFIG_HOME")
        self.path = (Path(named) if named else home / ".config") / "systemd" / "user" / UNIT
        self.logs = "journalctl --user -u threadkeep"

    def check(self) -> None:
        if shutil.which("systemctl") is None:
            raise NoServiceManager("systemd is not on this machine (there is no systemctl)")
        asked = _ask(["systemctl", "--user", "show-environment"])
        if asked.returncode != 0:
            raise NoServiceManager(
                f"systemd has no session for this user ({_read_output(asked)}), as in a container or after su or sudo; "
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
ExecStart={" ".join(_quote_systemd(word) for word in command)}
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

    def start(self) -> None:
        """Start the service now and at every login; a running one is restarted."""
        for words in (("daemon-reload",), ("enable", UNIT), ("restart", UNIT)):
            _order(["systemctl", "--user", *words])

    def remove(self) -> None:
        """Stop the service, now and at every login, and delete its file."""
        _ask(["systemctl", "--user", "disable", "--now", UNIT])
        self.path.unlink(missing_ok=True)
        _order(["systemctl", "--user", "daemon-reload"])

    def is_running(self) -> bool:
        return _ask(["systemctl", "--user", "is-active", "--quiet", UNIT]).returncode == 0


class Launchd:
    """launchd's agents of one user."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self.logs = str(home / "Library" / "Logs" / "threadkeep.log")
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

    def start(self) -> None:
        Path(self.logs).parent.mkdir(parents=True, exist_ok=True)
        _ask(["launchctl", "bootout", f"{self.domain}/{LABEL}"])
        _order(["launchctl", "bootstrap", self.domain, str(self.path)])

    def remove(self) -> None:
        _ask(["launchctl", "bootout", f"{self.domain}/{LABEL}"])
        self.path.unlink(missing_ok=True)

    def is_running(self) -> bool:
        asked = _ask(["launchctl", "print", f"{self.domain}/{LABEL}"])
        return asked.returncode == 0 and "state = running" in asked.stdout


ServiceManager = Systemd | Launchd


def run(args: Namespace) -> int:
    """Install the service, report on it, or remove it."""
    system = platform.system()
    if system not in ("Linux", "Darwin"):
        raise NoServiceManager(f"threadkeep knows systemd and launchd, and {system or 'this system'} has neither")
    manager: ServiceManager = Systemd(Path.home()) if system == "Linux" else Launchd(Path.home())
    actions = {"install": _install, "status": _report_status, "remove": _remove}
    return actions[args.action](args, manager)


def _install(args: Namespace, manager: ServiceManager) -> int:
    """Show the file; if the user agrees, write it and start the service."""
    settings = read_settings(args, with_project=False)
    config = build_config(settings)
    manager.check()
    if not is_loopback(config.host) and not config.keys_file:
        raise UnsafeBind(config.host)
    text = manager.describe(_list_command(settings))
    if not args.json:
        print(clean(text), end="", flush=True)
    is_agreed = args.yes or (not args.json and ask_user(f"Write {manager.path} and start the service?"))
    url = find_url(text, config)
    if is_agreed:
        if is_answering(url) and not manager.is_running():
            # The service would fail, and another gateway would answer in its place.
            raise PortTaken(config.host, config.port)
        write_file(manager.path, text.encode("utf-8"))
        manager.start()
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and manager.is_running() and not is_answering(url):
            time.sleep(0.2)
    answers = is_agreed and is_answering(url)
    if args.json:
        file = {"file": str(manager.path), "text": text, "installed": is_agreed}
        print_json({**file, "url": url, "answers": answers, "logs": manager.logs})
    elif is_agreed:
        _print_installed(manager, settings, url, answers=answers)
    else:
        screen = open_screen()
        screen.write(("Nothing was written.", "yellow"), f" The file would be {manager.path}.")
        screen.write("To install it, run the same command with --yes.")
    return 0 if answers or not is_agreed else 1


def _list_command(settings: list[Setting]) -> list[str]:
    """Return the command the service runs, with the settings that came by flag or variable."""
    words = [*find_own_program(), "serve"]
    for setting in settings:
        flag = FLAGS.get(setting.name)
        if flag is None or setting.origin not in ("flag", "environment") or setting.value is None:
            continue
        value = str(setting.value)
        if setting.name == "store" and "://" in value and ":" in value.partition("://")[2].rpartition("@")[0]:
            text = f"this store's address has a password in it, which the service's file would show; put `store` into {USER_FILE}"
            raise InvalidArgument("store", text)
        if setting.name == "keys_file" or (setting.name == "store" and "://" not in value):
            value = str(Path(value).expanduser().absolute())
        words += [flag, value]
    auto = next(setting for setting in settings if setting.name == "auto_compact")
    # A service is for compaction, so `off` must be asked for.
    return [*words, "--auto-compact", "on" if auto.origin == "default" else str(auto.value)]


def _print_installed(manager: ServiceManager, settings: list[Setting], url: str, *, answers: bool) -> None:
    screen = open_screen()
    screen.write(("Written:", "green"), f" {manager.path}")
    unseen = [f"THREADKEEP_{each.name.upper()}" for each in settings if each.origin == "environment" and each.name not in FLAGS]
    if unseen:
        screen.write(("note: ", "yellow"), f"the service does not see {', '.join(unseen)} of this shell; set it in {USER_FILE}")
    if isinstance(manager, Systemd):
        screen.write("It runs while you are logged in; `loginctl enable-linger` keeps it running after that.")
    if answers:
        screen.write(("The gateway answers", "green"), f" at {url}. Next: threadkeep setup")
    else:
        screen.write(("The gateway does not answer yet", "yellow"), f" at {url}; its log: {manager.logs}")


def _report_status(args: Namespace, manager: ServiceManager) -> int:
    """Say whether the service is installed, runs and answers; 0 only if it does all three."""
    text = _read_file(manager)
    url = find_url(text or "", read_config(args, with_project=False))
    is_installed, answers = text is not None, is_answering(url)
    is_running = is_installed and manager.is_running()
    if args.json:
        file = {"file": str(manager.path), "installed": is_installed, "running": is_running}
        print_json({**file, "url": url, "answers": answers, "logs": manager.logs})
    else:
        screen = open_screen()
        for name, holds, where in (
            ("installed", is_installed, str(manager.path)),
            ("running  ", is_running, manager.logs),
            ("answers  ", answers, url),
        ):
            screen.write_uncut(f"{name}  ", ("yes", "green") if holds else ("no ", "yellow"), f"  {where}")
        if not is_installed:
            screen.write("To install it: threadkeep service install")
    return 0 if is_installed and is_running and answers else 1


def _remove(args: Namespace, manager: ServiceManager) -> int:
    """Stop the service and delete its file."""
    text = _read_file(manager)
    if text is not None:
        if isinstance(manager, Systemd) and WRITTEN_BY not in text:
            raise UnusableFile(str(manager.path), reason="was not written by threadkeep; remove it yourself")
        manager.check()
        manager.remove()
    if args.json:
        print_json({"file": str(manager.path), "removed": text is not None})
    else:
        words = "Stopped and removed" if text is not None else "Not installed; there is no"
        open_screen().write(f"{words} {manager.path}")
    return 0


def _read_file(manager: ServiceManager) -> str | None:
    try:
        return manager.path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableFile(str(manager.path), reason=f"cannot be read: {error}; mend or remove it yourself") from error


def find_url(text: str, config: Config) -> str:
    """Return where the service listens: as its file says, else as it is set."""
    host = _find_flag(text, "--host") or config.host
    host = "127.0.0.1" if host in ("0.0.0.0", "localhost") else "::1" if host == "::" else host
    return f"http://{f'[{host}]' if ':' in host else host}:{_find_flag(text, '--port') or config.port}"


def _find_flag(text: str, flag: str) -> str | None:
    """Return the value of a flag in the file of a unit or an agent."""
    found = re.search(rf'{flag}(?:</string>\s*<string>|\s+)"?([^\s"<]+)', text)
    return found[1] if found else None


def _quote_systemd(word: str) -> str:
    """Return a word as a unit file writes it: no specifier, no variable and no space of its own takes effect."""
    if any(character in word for character in "\n\r\0"):
        raise InvalidArgument("command", f"{word!r} has a line end, which cannot stand in a service's command; name another")
    plain = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$~-]+", plain):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _ask(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=MANAGER_SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceFailed(shlex.join(words), reason=f"it took longer than {MANAGER_SECONDS} seconds") from error
    except OSError as error:
        raise ServiceFailed(shlex.join(words), reason=error.strerror or str(error)) from error


def _order(words: Sequence[str]) -> None:
    ran = _ask(words)
    if ran.returncode != 0:
        raise ServiceFailed(shlex.join(words), reason=_read_output(ran))


def _read_output(ran: subprocess.CompletedProcess[str]) -> str:
    return " ".join((ran.stderr or ran.stdout).split())
