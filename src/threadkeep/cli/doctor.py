"""`threadkeep doctor`: whether everything works, which settings were changed and where, and what to do next."""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import socket
import sqlite3
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep import __version__
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.settings import read_settings
from threadkeep.cli.store import describe_store, hide_credentials, may_have_store
from threadkeep.client import Config, Setting, Threadkeep, build_config
from threadkeep.client.threadkeep import EVERY
from threadkeep.errors import BadInput, StoreError
from threadkeep.gateway.http.guards import is_loopback
from threadkeep.store.locations import is_file, parse_sqlite_path
from threadkeep.store.sqlite.file import read_migrations
from threadkeep.tokens import Limits
from threadkeep.viewer.number_format import format_count, format_size

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Part, Row

# Below this the frame of a session state, a request and an answer leave no room for anything.
LEAST_LIMIT_TOKENS = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """The condition of the store; `problem` says why it does not open, None where it does or is not there yet."""

    path: str
    exists: bool
    opens: bool
    schema: int | None = None
    bytes: int = 0
    threads: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """Everything the doctor looked at.

    Attributes:
        project: Why the settings file of the working folder is refused; its settings then do not count.
        port: free, taken or refused.
        advice: What to do next, most pressing first.
    """

    version: str
    python: str
    sqlite: str
    fts5: bool
    project: str | None
    store: StoreHealth
    port: str
    advice: tuple[str, ...]


def run(args: Namespace) -> int:
    """Examine the installation, or Hermes; 1 when something would keep threadkeep from working."""
    if args.hermes is not None:
        return _run_hermes(args)
    try:
        settings, refusal = read_settings(args), None
    except BadInput as error:
        # Another file, a variable or a flag raises the same error again here.
        settings, refusal = read_settings(args, with_project=False), str(error)
    config = build_config(settings)
    checkup = _examine(config, project=refusal)
    if args.json:
        print_json({**asdict(checkup), "settings": [{**asdict(setting), "value": _show_value(setting)} for setting in settings]})
    else:
        _print_checkup(checkup, settings, config)
    return 0 if checkup.fts5 and refusal is None and checkup.store.problem is None and checkup.port != "refused" else 1


def _examine(config: Config, *, project: str | None) -> Checkup:
    store, fts5, port = _examine_store(config), _has_fts5(), _examine_port(config.host, config.port)
    return Checkup(
        version=__version__,
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        fts5=fts5,
        project=project,
        store=store,
        port=port,
        advice=(*([project] if project else []), *_give_advice(config, store, fts5=fts5, port=port)),
    )


def _examine_store(config: Config) -> StoreHealth:
    """Open the store. A file that is not there is no problem, and is not made; connecting to a server updates its schema."""
    in_file, name = is_file(config.store), describe_store(config)
    if not may_have_store(config):
        return StoreHealth(path=name, exists=False, opens=False)
    try:
        threads = asyncio.run(_count_threads(config))
    except StoreError as error:
        return StoreHealth(path=name, exists=in_file, opens=False, problem=str(error))
    if not in_file:
        return StoreHealth(path=name, exists=True, opens=True, threads=threads)
    path = parse_sqlite_path(config.store)
    size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    # Opening a file brings its schema up to date.
    return StoreHealth(path=name, exists=True, opens=True, schema=max(read_migrations()), bytes=size, threads=threads)


async def _count_threads(config: Config) -> int:
    async with Threadkeep(config) as tk:
        return len(await tk.backend.store.threads(limit=EVERY))


def _has_fts5() -> bool:
    connection = sqlite3.connect(":memory:")
    try:
        return bool(connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0])
    finally:
        connection.close()


def _examine_port(host: str, port: int) -> str:
    """Return `free`, `taken`, or `refused` where the gateway would not, or could not, listen at all."""
    if not is_loopback(host):
        return "refused"
    address = "127.0.0.1" if host.lower().removesuffix(".") == "localhost" else host
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return "taken" if error.errno == errno.EADDRINUSE else "refused"
    return "free"


def _give_advice(config: Config, store: StoreHealth, *, fts5: bool, port: str) -> Iterator[str]:
    where = f"{config.host}:{config.port}"
    if store.problem is not None:
        yield store.problem
    if not fts5:
        yield "this Python's SQLite has no FTS5, which recall needs; use another Python build"
    if port == "refused":
        yield f"the gateway cannot listen on {where}; set host to 127.0.0.1 and port above 1023"
    if port == "taken":
        yield f"something listens on {where}, perhaps threadkeep itself; another gateway needs another --port"
    hard = Limits.of_window(config.model_context_window, auto_limit=config.model_auto_compact_token_limit).hard
    if hard < LEAST_LIMIT_TOKENS:
        yield (
            f"a limit of {hard} tokens has no room for a session state and a request; "
            "raise model_context_window or model_auto_compact_token_limit"
        )
    if store.problem is None and not store.threads:
        yield "run `threadkeep demo` to see it work, then `threadkeep run CLIENT` to use it"
    elif store.threads:
        yield "run `threadkeep threads` to see what was recorded, `threadkeep verify` to prove it"


def _show_value(setting: Setting) -> object:
    """Return a value as it may be shown: addresses of servers without their passwords."""
    return hide_credentials(setting.value) if isinstance(setting.value, str) else setting.value


def _print_checkup(checkup: Checkup, settings: list[Setting], config: Config) -> None:
    screen = open_screen()
    screen.write(("threadkeep", "bold green"), f" {checkup.version}")
    screen.write_heading("Checks")
    search = "with full-text search" if checkup.fts5 else "without full-text search (FTS5)"
    checks: list[Row] = [
        [_mark(good=True), "python", checkup.python],
        [_mark(good=checkup.fts5), "sqlite", f"{checkup.sqlite}, {search}"],
        [_mark(good=checkup.store.problem is None), "store", _describe_health(checkup.store)],
        [_mark(good=checkup.port == "free"), "gateway", f"{config.host}:{config.port} is {checkup.port}"],
    ]
    if checkup.project:
        checks.insert(2, [_mark(good=False), "project", "its threadkeep.toml is refused, so no command works here"])
    screen.write_table(["", "", ""], checks, indent=2)
    screen.write_heading("Next")
    for advice in checkup.advice:
        screen.write(advice, indent=2)
    changed = [setting for setting in settings if setting.origin != "default"]
    screen.write_heading("Changed settings", "" if changed else "none; `--json` lists the defaults")
    rows: list[Row] = [[setting.name, (str(_show_value(setting)), "bold"), (setting.origin, "dim")] for setting in changed]
    if rows:
        screen.write_table(["setting", "value", "from"], rows, indent=2)


def _mark(*, good: bool) -> Part:
    return ("ok", "green") if good else ("!!", "bold red")


def _describe_health(store: StoreHealth) -> str:
    if store.problem is not None:
        return f"{store.path} does not open"
    if not store.exists:
        return f"{store.path} is not there yet; it is made when it is first needed"
    threads = f"{store.path}: {format_count(store.threads or 0, 'thread')}"
    return threads if store.schema is None else f"{threads}, {format_size(store.bytes)}, schema {store.schema}"


def _run_hermes(args: Namespace) -> int:
    """Ask Hermes which context engine it uses; 1 when that is not threadkeep.

    Raises:
        BadInput: There is no Hermes to ask, or it does not answer.
    """
    from threadkeep.adapters.hermes.doctor import find_host_python, make_checks, probe_host

    home = Path(args.hermes or os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
    python = find_host_python(args.hermes_python, environ=os.environ)
    checks = make_checks(probe_host(python, home=home, environ=os.environ), home=home)
    in_use = all(check.good for check in checks)
    if args.json:
        print_json({"home": str(home), "python": python, "in_use": in_use, "checks": [asdict(check) for check in checks]})
        return 0 if in_use else 1
    screen = open_screen()
    screen.write_table(["", "", ""], [[_mark(good=check.good), check.name, check.found] for check in checks], indent=2)
    screen.write_heading("Next")
    if in_use:
        screen.write("threadkeep is the context engine in use; `/threadkeep` in a session shows its figures", indent=2)
    for check in checks:
        if not check.good:
            screen.write(check.advice, indent=2)
    return 0 if in_use else 1
