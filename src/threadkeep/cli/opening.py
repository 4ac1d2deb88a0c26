"""From arguments to an open store."""

from __future__ import annotations

import hashlib
import os
from argparse import Namespace
from dataclasses import fields
from pathlib import Path

from threadkeep.client import Config, Setting, Threadkeep, build_config, resolve
from threadkeep.config import DEFAULT_STORE
from threadkeep.errors import StoreMissing
from threadkeep.store.addresses import SERVERS, UNREADABLE, redact_address
from threadkeep.store.locations import is_file, parse_sqlite_path


def settings_of(args: Namespace) -> list[Setting]:
    """Return every setting, with what this command line says first.

    Raises:
        BadInput: A configuration file or variable cannot be understood.
    """
    flags = {field.name: getattr(args, field.name, None) for field in fields(Config)}
    return resolve(flags=flags, environ=os.environ, project=Path.cwd())


def own_settings_of(args: Namespace) -> list[Setting]:
    """Return every setting without those of the working folder's file: what is set up for good does not depend on the folder.

    Raises:
        BadInput: The user's configuration file, or a variable, cannot be understood.
    """
    flags = {field.name: getattr(args, field.name, None) for field in fields(Config)}
    return resolve(flags=flags, environ=os.environ, project=None)


def store_path(config: Config) -> Path:
    """Return the file the store is in, or would be."""
    return parse_sqlite_path(config.store)


def store_name(config: Config) -> str:
    """Return where the store is, as it may be shown: a database's address without its password."""
    return str(store_path(config)) if is_file(config.store) else without_password(config.store)


def without_password(address: str) -> str:
    """Return the address of a server as it may be shown: without who is let in, and by what."""
    if address.startswith(SERVERS):
        return redact_address(address) or UNREADABLE
    scheme, there, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}" if there else address


def token_place(config: Config) -> Path:
    """Return the path beside which the control token is kept: the store's own, or for a database one of this machine's user."""
    if is_file(config.store):
        return store_path(config)
    named = hashlib.sha256(store_name(config).encode()).hexdigest()[:16]
    return Path(DEFAULT_STORE).expanduser().with_name(f"database-{named}")


def is_there(path: Path) -> bool:
    """Whether there is a file, or something stands in the way of knowing; opening it will then say what."""
    try:
        return path.exists()
    except OSError:
        return True


def existing_store(args: Namespace) -> Threadkeep:
    """Return the store to open with `async with`. A command that only looks makes no file where there was none.

    Raises:
        StoreMissing: There is no such file.
    """
    config = build_config(settings_of(args))
    if is_file(config.store) and not is_there(path := store_path(config)):
        raise StoreMissing(str(path))
    return Threadkeep(config, environ=os.environ)
