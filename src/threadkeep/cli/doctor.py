"""`threadkeep doctor`: what is set, where it was set, whether it works, and what to do next."""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import socket
import sqlite3
from argparse import Namespace
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep import __version__
from threadkeep.cli import doctor_hermes
from threadkeep.cli.figures import count, size
from threadkeep.cli.opening import is_there, settings_of, store_name, store_path, without_password
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Config, Setting, Threadkeep, build_config, resolve
from threadkeep.client.threadkeep import EVERY
from threadkeep.errors import BadInput, StoreError
from threadkeep.gateway.http.guards import is_loopback
from threadkeep.store.locations import is_file
from threadkeep.store.sqlite.file import connect, read_migrations
from threadkeep.tokens import Limits

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen


# Below this the frame of a session state, a request and an answer leave no room for anything.
LEAST_LIMIT_TOKENS = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """What can be said about the store; `problem` where it does not open."""

    path: str
    exists: bool
    opens: bool
    schema: int | None = None
    newest_schema: int
    bytes: int = 0
    threads: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """Everything the doctor looked at.

    Attributes:
        project: Why the file of the folder it was run in is refused; the settings are then those without it.
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
    """Examine the installation, or a host's; 1 when something would keep threadkeep from working."""
    if args.hermes is not None:
        return doctor_hermes.run(args)
    settings, refused = _settings(args)
    config = build_config(settings)
    found = _examined(config, project=refused)
    if args.json:
        print_json({**asdict(found), "settings": [{**asdict(setting), "value": _shown(setting)} for setting in settings]})
    else:
        _tell(open_screen(), found, settings, config)
    return 0 if found.fts5 and refused is None and found.store.problem is None and found.port != "refused" else 1


def _settings(args: Namespace) -> tuple[list[Setting], str | None]:
    """Return every setting, and why those of the folder's own file are not among them, if they are not.

    Raises:
        BadInput: It is another file, a variable or a flag that cannot be understood.
    """
    try:
        return settings_of(args), None
    except BadInput as error:
        flags = {field.name: getattr(args, field.name, None) for field in fields(Config)}
        return resolve(flags=flags, environ=os.environ, project=None), str(error)


def _examined(config: Config, *, project: str | None) -> Checkup:
    store = _store_health(config)
    fts5 = _has_fts5()
    port = _port_state(config.host, config.port)
    return Checkup(
        version=__version__,
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        fts5=fts5,
        project=project,
        store=store,
        port=port,
        advice=(*([project] if project else []), *_advice(config, store, fts5=fts5, port=port)),
    )


def _store_health(config: Config) -> StoreHealth:
    """Open the store if it is there. One that is not is no problem, and is not made here."""
    if not is_file(config.store):
        return _server_health(config)
    path, newest = store_path(config), max(read_migrations())
    if not is_there(path):
        return StoreHealth(path=str(path), exists=False, opens=False, newest_schema=newest)
    try:
        threads = asyncio.run(_thread_count(config))
    except StoreError as error:
        return StoreHealth(path=str(path), exists=True, opens=False, newest_schema=newest, problem=str(error))
    taken = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    schema = _schema_version(path)
    return StoreHealth(path=str(path), exists=True, opens=True, schema=schema, newest_schema=newest, bytes=taken, threads=threads)


def _server_health(config: Config) -> StoreHealth:
    """Connect to a database, or open what lives in memory; connecting brings its schema up to date."""
    name = store_name(config)
    try:
        threads = asyncio.run(_thread_count(config))
    except StoreError as error:
        return StoreHealth(path=name, exists=False, opens=False, newest_schema=0, problem=str(error))
    return StoreHealth(path=name, exists=True, opens=True, newest_schema=0, threads=threads)


async def _thread_count(config: Config) -> int:
    async with Threadkeep(config) as tk:
        return len(await tk.backend.store.threads(limit=EVERY))


def _schema_version(path: Path) -> int:
    connection = connect(path, read_only=True)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    finally:
        connection.close()
    return int(version)


def _has_fts5() -> bool:
    connection = sqlite3.connect(":memory:")
    try:
        return bool(connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0])
    finally:
        connection.close()


def _port_state(host: str, port: int) -> str:
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


def _advice(config: Config, store: StoreHealth, *, fts5: bool, port: str) -> list[str]:
    advice: list[str] = []
    where = f"{config.host}:{config.port}"
    if store.problem is not None:
        advice.append(store.problem)
    if not fts5:
        advice.append("this Python's SQLite has no FTS5, which recall needs; use another Python build")
    if port == "refused":
        advice.append(f"the gateway cannot listen on {where}; set host to 127.0.0.1 and port above 1023")
    if port == "taken":
        advice.append(f"something listens on {where}, perhaps threadkeep itself; another gateway needs another --port")
    hard = Limits.of_window(config.model_context_window, auto_limit=config.model_auto_compact_token_limit).hard
    if hard < LEAST_LIMIT_TOKENS:
        advice.append(
            f"no window fits a limit of {hard} tokens once the state and a request stand in it; "
            "raise model_context_window or model_auto_compact_token_limit"
        )
    if store.problem is None and not store.threads:
        advice.append("run `threadkeep demo` to see it work, then `threadkeep serve` and point an agent at it")
    elif store.threads:
        advice.append("run `threadkeep threads` to see what was recorded, `threadkeep verify` to prove it")
    return advice


def _shown(setting: Setting) -> object:
    """Return a value as it may be shown: addresses of servers without their passwords."""
    return without_password(setting.value) if isinstance(setting.value, str) else setting.value


def _tell(screen: Screen, found: Checkup, settings: list[Setting], config: Config) -> None:
    screen.line(("threadkeep", "bold green"), f" {found.version}")
    screen.heading("Settings")
    rows: list[list[Part]] = [
        [setting.name, (str(_shown(setting)) if setting.value is not None else "unset", "bold"), (setting.origin, "dim")]
        for setting in settings
    ]
    screen.table(["setting", "value", "from"], rows, indent=2)
    screen.heading("Checks")
    search = "with full-text search" if found.fts5 else "without full-text search (FTS5)"
    checks: list[list[Part]] = [
        [_mark(good=True), "python", found.python],
        [_mark(good=found.fts5), "sqlite", f"{found.sqlite}, {search}"],
        *([[_mark(good=False), "project", "its threadkeep.toml is refused; no command works here"]] if found.project else []),
        [_mark(good=found.store.problem is None), "store", _store_line(found.store)],
        [_mark(good=found.port == "free"), "gateway", f"{config.host}:{config.port} is {found.port}"],
    ]
    screen.table(["", "", ""], checks, indent=2)
    screen.heading("Next")
    for advice in found.advice:
        screen.line(advice, indent=2)


def _mark(*, good: bool) -> Part:
    return ("ok", "green") if good else ("!!", "bold red")


def _store_line(store: StoreHealth) -> str:
    if store.problem is not None:
        return f"{store.path} does not open"
    if not store.exists:
        return f"{store.path} is not there yet; it is made when it is first needed"
    threads = f"{store.path}: {count(store.threads or 0, 'thread')}"
    return threads if store.schema is None else f"{threads}, {size(store.bytes)}, schema {store.schema}"
