"""`threadkeep service`: the gateway as a service of this user, started at login and kept running."""

from __future__ import annotations

import platform
import sys
import time
from argparse import Namespace
from itertools import pairwise
from pathlib import Path

from threadkeep.adapters.client_settings.settings_file import Change, write_file
from threadkeep.cli.cleaning import clean
from threadkeep.cli.hook_places import own_program
from threadkeep.cli.opening import own_settings_of
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.probe import answers
from threadkeep.cli.service_managers import WRITTEN_BY, ServiceManager, Systemd, manager_for
from threadkeep.client import Config, Setting, build_config
from threadkeep.errors import BadInput, PortTaken
from threadkeep.gateway.http.guards import is_loopback

START_SECONDS = 15.0
# What `serve` takes as flags, and the setting behind each.
FLAGS = {
    "store": "--store",
    "host": "--host",
    "port": "--port",
    "openai_upstream": "--openai-upstream",
    "anthropic_upstream": "--anthropic-upstream",
    "keys_file": "--keys",
    "access_log": "--access-log",
}


def run(args: Namespace) -> int:
    """Install the service, say how it is, or remove it."""
    manager = manager_for(platform.system(), home=Path.home())
    if args.action == "install":
        return _install(args, manager)
    return _status(args, manager) if args.action == "status" else _remove(args, manager)


def _install(args: Namespace, manager: ServiceManager) -> int:
    """Show the file; if the user agrees, write it and start the service."""
    settings = own_settings_of(args)
    config = build_config(settings)
    manager.check()
    if not is_loopback(config.host) and not config.keys_file:
        raise BadInput(f"{config.host} can be reached by others, so the gateway needs keys: give --keys FILE")
    command = _command(args, settings)
    change = Change(path=manager.path, before=_text(manager), after=manager.describe(command))
    if not args.json:
        print(clean(change.after or ""), end="", flush=True)
    agreed = args.yes or (not args.json and _agrees(manager, change))
    url = _url(manager, change.after or "", config)
    if agreed:
        if answers(url) and not manager.is_running():
            # Someone else's gateway would make the service fail, and look as if it worked.
            raise PortTaken(config.host, config.port)
        write_file(manager.path, (change.after or "").encode("utf-8"))
        manager.start()
        _wait_for(manager, url)
    answering = agreed and answers(url)
    if args.json:
        print_json(
            {
                "file": str(manager.path),
                "text": change.after,
                "installed": agreed,
                "url": url,
                "answers": answering,
                "logs": manager.logs,
            }
        )
    else:
        _tell_installed(args, manager, settings, url, agreed=agreed, answering=answering)
    return 0 if answering or not agreed else 1


def _command(args: Namespace, settings: list[Setting]) -> list[str]:
    """Return the command the service runs: what was said here, by flag or variable, is written into it."""
    words = [*own_program(), "serve"]
    for setting in settings:
        flag = FLAGS.get(setting.name)
        if flag is None or setting.origin not in ("flag", "environment") or setting.value is None:
            continue
        value = str(setting.value)
        if setting.name == "store" and "://" in value and ":" in value.partition("://")[2].rpartition("@")[0]:
            raise BadInput(
                "this store's address has a password in it, which the service's file would show; "
                "put `store` into ~/.config/threadkeep/threadkeep.toml"
            )
        if setting.name == "keys_file" or (setting.name == "store" and "://" not in value):
            value = str(Path(value).expanduser().absolute())
        words += [flag, value]
    auto = next(setting for setting in settings if setting.name == "auto_compact")
    # Whoever wants a service wants compaction; `off` must be said.
    return [*words, "--auto-compact", "on" if auto.origin == "default" else str(auto.value)]


def _agrees(manager: ServiceManager, change: Change) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    verb = "Write" if change.before is None else "Replace"
    try:
        return input(f"{verb} {manager.path} and start the service? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _wait_for(manager: ServiceManager, url: str) -> None:
    """Wait until the gateway answers, or its process is gone."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and manager.is_running() and not answers(url):
        time.sleep(0.2)


def _tell_installed(
    args: Namespace, manager: ServiceManager, settings: list[Setting], url: str, *, agreed: bool, answering: bool
) -> None:
    screen = open_screen()
    if not agreed:
        screen.line(("Nothing was written.", "yellow"), f" This would be {manager.path}.")
        screen.line("To install it, run the same command with --yes.")
        return
    screen.line(("Written:", "green"), f" {manager.path}")
    unseen = [f"THREADKEEP_{each.name.upper()}" for each in settings if each.origin == "environment" and each.name not in FLAGS]
    if unseen:
        where = "~/.config/threadkeep/threadkeep.toml"
        screen.line(("note: ", "yellow"), f"the service does not see {', '.join(unseen)} of this shell; set it in {where}")
    if isinstance(manager, Systemd):
        screen.line("It runs while you are logged in; `loginctl enable-linger` keeps it running after that.")
    if answering:
        screen.line(("The gateway answers", "green"), f" at {url}. Next: threadkeep setup")
    else:
        screen.line(("The gateway does not answer yet", "yellow"), f" at {url}; its log: {manager.logs}")


def _status(args: Namespace, manager: ServiceManager) -> int:
    """Say whether the service is installed, runs and answers; 0 only if it does all three."""
    config = build_config(own_settings_of(args))
    text = _text(manager)
    url = _url(manager, text or "", config)
    running, answering = text is not None and manager.is_running(), answers(url)
    if args.json:
        print_json(
            {
                "file": str(manager.path),
                "installed": text is not None,
                "running": running,
                "url": url,
                "answers": answering,
                "logs": manager.logs,
            }
        )
    else:
        screen = open_screen()
        for name, holds, where in (
            ("installed", text is not None, str(manager.path)),
            ("running  ", running, manager.logs),
            ("answers  ", answering, url),
        ):
            screen.whole_line(f"{name}  ", ("yes", "green") if holds else ("no ", "yellow"), f"  {where}")
        if text is None:
            screen.line("To install it: threadkeep service install")
    return 0 if text is not None and running and answering else 1


def _remove(args: Namespace, manager: ServiceManager) -> int:
    """Stop the service and delete its file."""
    text = _text(manager)
    if text is not None:
        if isinstance(manager, Systemd) and WRITTEN_BY not in text:
            raise BadInput(f"{manager.path} was not written by threadkeep; remove it yourself")
        manager.check()
        manager.stop()
        manager.path.unlink(missing_ok=True)
        manager.forget()
    if args.json:
        print_json({"file": str(manager.path), "removed": text is not None})
    else:
        words = "Stopped and removed" if text is not None else "Not installed; there is no"
        open_screen().line(f"{words} {manager.path}")
    return 0


def _text(manager: ServiceManager) -> str | None:
    try:
        return manager.path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{manager.path} cannot be read: {error}") from error


def _url(manager: ServiceManager, text: str, config: Config) -> str:
    """Return where the service listens: as its file says, else as it is set."""
    words = manager.command_in(text)
    given = dict(pairwise(words))
    host = given.get("--host", config.host)
    host = "127.0.0.1" if host in ("0.0.0.0", "localhost") else "::1" if host == "::" else host
    port = given.get("--port", str(config.port))
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
