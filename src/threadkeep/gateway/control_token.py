"""The token of the control API: made once per store, kept beside it, readable by its owner alone."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from threadkeep.errors import CannotKeepToken

SUFFIX = ".control-token"

_token = re.compile(r"[A-Za-z0-9_-]{32,128}")


def new_token() -> str:
    """Return a fresh token."""
    return secrets.token_urlsafe(32)


def token_file(store: Path) -> Path:
    """Return where the token of a store is kept."""
    return store.with_name(store.name + SUFFIX)


def kept_token(store: Path) -> str:
    """Return the token of a store, made if there is none yet; gateways that share a store share it.

    A file that others could read, or that holds something else, is replaced.

    Raises:
        CannotKeepToken: The file cannot be read or written.
    """
    path = token_file(store)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _private_token(path) or _written(path, new_token())
    except OSError as error:
        raise CannotKeepToken(str(path), reason=error.strerror or type(error).__name__) from error


def _private_token(path: Path) -> str | None:
    try:
        # Not through a link: what is read here opens every thread.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        shared = os.fstat(handle).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        text = file.read(256).strip()
    return text if not shared and _token.fullmatch(text) else None


def _written(path: Path, token: str) -> str:
    path.unlink(missing_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # Another gateway on the same store was faster; its token is the one.
        return _private_token(path) or token
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token
