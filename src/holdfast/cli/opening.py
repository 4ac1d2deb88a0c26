"""From arguments to an open store."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import fields
from pathlib import Path

from holdfast.errors import StoreMissing
from holdfast.runtime import Config, Holdfast, Setting, config_of, resolve
from holdfast.runtime.locations import is_file, sqlite_path


def settings_of(args: Namespace) -> list[Setting]:
    """Return every setting, with what this command line says first.

    Raises:
        BadInput: A configuration file or variable cannot be understood.
    """
    flags = {field.name: getattr(args, field.name, None) for field in fields(Config)}
    return resolve(flags=flags, environ=os.environ, project=Path.cwd())


def store_path(config: Config) -> Path:
    """Return the file the store is in, or would be."""
    return sqlite_path(config.store)


def store_name(config: Config) -> str:
    """Return where the store is, as it may be shown: a database's address without its password."""
    if is_file(config.store):
        return str(store_path(config))
    address, at, place = config.store.rpartition("@")
    return f"{address.split('://')[0]}://{place}" if at else config.store


def is_there(path: Path) -> bool:
    """Whether there is a file, or something stands in the way of knowing; opening it will then say what."""
    try:
        return path.exists()
    except OSError:
        return True


def existing_store(args: Namespace) -> Holdfast:
    """Return the store to open with `async with`. A command that only looks makes no file where there was none.

    Raises:
        StoreMissing: There is no such file.
    """
    config = config_of(settings_of(args))
    if is_file(config.store) and not is_there(path := store_path(config)):
        raise StoreMissing(str(path))
    return Holdfast(config, environ=os.environ)
