"""The store of a command: opened if it is there, and shown without its credentials; with the token and keys kept beside it."""

from __future__ import annotations

import hashlib
import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.cli.settings import read_config
from threadkeep.config import DEFAULT_STORE, Config
from threadkeep.errors import StoreMissing
from threadkeep.store.addresses import SERVERS, UNREADABLE, redact_address
from threadkeep.store.locations import IN_MEMORY, is_file, parse_sqlite_path

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.gateway.http.keys import KeysFile

TOKEN_VARIABLE = "THREADKEEP_CONTROL_TOKEN"


def open_existing_store(args: Namespace) -> Threadkeep:
    """Return the store to open with `async with`. No file is made where there was none.

    Raises:
        StoreMissing: There is no such file.
    """
    from threadkeep.client import Threadkeep

    config = read_config(args)
    if not may_have_store(config):
        raise StoreMissing(describe_store(config))
    return Threadkeep(config, environ=os.environ)


def may_have_store(config: Config) -> bool:
    """Whether there may be a store: only a file can be known to be missing."""
    return not is_file(config.store) or may_exist(parse_sqlite_path(config.store))


def may_exist(path: Path) -> bool:
    """Whether a file is there, or cannot be looked at; opening it then says why."""
    try:
        return path.exists()
    except OSError:
        return True


def describe_store(config: Config) -> str:
    """Return where the store is, as it may be shown: a database's address without its password."""
    return str(parse_sqlite_path(config.store)) if is_file(config.store) else hide_credentials(config.store)


def hide_credentials(address: str) -> str:
    """Return a server's address as it may be shown: without user, password and options."""
    if address.startswith(SERVERS):
        return redact_address(address) or UNREADABLE
    scheme, separator, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}" if separator else address


def open_keys(config: Config) -> KeysFile | None:
    """Return the file of gateway keys, if one is set.

    Raises:
        BadInput: It cannot be understood.
    """
    from threadkeep.gateway.http.keys import KeysFile

    return KeysFile(Path(config.keys_file).expanduser()) if config.keys_file else None


def locate_token(config: Config) -> Path:
    """Return the path beside which the control token is kept: the store's own, or for a database one of this machine's user."""
    if is_file(config.store):
        return parse_sqlite_path(config.store)
    digest = hashlib.sha256(describe_store(config).encode()).hexdigest()[:16]
    return Path(DEFAULT_STORE).expanduser().with_name(f"database-{digest}")


def find_token(config: Config, *, given: str | None = None) -> tuple[str, Path | None]:
    """Return the control token, and its file: None where it was given by flag or variable, or the store is in memory."""
    from threadkeep.gateway.control.identity import find_token_file, load_token, make_token

    if named := given or os.environ.get(TOKEN_VARIABLE):
        return named, None
    if config.store == IN_MEMORY:
        return make_token(), None
    place = locate_token(config)
    return load_token(place), find_token_file(place)
