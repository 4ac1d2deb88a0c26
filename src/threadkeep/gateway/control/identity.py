"""How a program on this machine finds out that a gateway is the user's own, on the same store and with the same settings.

    GET /threadkeep/v1/identity?nonce=N    ->  {"told": TEXT, "proof": HEX}

`told` is JSON: the version, a digest of the settings, the upstreams, and how each kind of client is compacted. `proof` is a
keyed digest of the nonce and that text. Only the holder of the store's control token can make it, and the token itself is never
sent to a stranger.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Final

import msgspec

from threadkeep import __version__
from threadkeep.client import Config
from threadkeep.errors import CannotKeepToken
from threadkeep.gateway.conversation.rules import CLAUDE_CODE, make_rules

PATH: Final = b"/threadkeep/v1/identity"

# Where a gateway listens and what it logs change nothing for a client; the store is proved by its token; the rest is told apart.
LEFT_OUT: Final = frozenset(
    {"store", "host", "port", "access_log", "log_content", "keys_file", "profile", "auto_compact", "auto_compact_for"}
)

_nonce = re.compile(rb"nonce=([0-9a-zA-Z_-]{16,64})")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway says about itself.

    Attributes:
        settings: A digest of the settings that decide what becomes of a request.
        needs_keys: Whether it serves only holders of a key.
        upstreams: Where requests to OpenAI's API go, and those to Anthropic's.
        compacts: How conversations are compacted that are not Claude Code's, and how Claude Code's are.
    """

    version: str
    settings: str
    needs_keys: bool
    upstreams: tuple[str, str]
    compacts: tuple[str, str]


class _Proved(msgspec.Struct):
    told: str
    proof: str


def make_identity(config: Config) -> Identity:
    """Return what a gateway with this configuration says about itself."""
    settings = {field.name: getattr(config, field.name) for field in fields(Config) if field.name not in LEFT_OUT}
    rules = make_rules(config)
    return Identity(
        version=__version__,
        settings=hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest(),
        needs_keys=config.keys_file is not None,
        upstreams=(config.openai_upstream, config.anthropic_upstream),
        compacts=(rules.find_mode(client="", model=""), rules.find_mode(client=CLAUDE_CODE, model="")),
    )


def answer_identity(query: bytes, identity: Identity, *, token: str) -> bytes | None:
    """Return the answer to a request for the identity; None where it brings no nonce."""
    nonce = _nonce.fullmatch(query)
    if nonce is None:
        return None
    told = msgspec.json.encode(identity).decode()
    return msgspec.json.encode(_Proved(told=told, proof=_proof(nonce[1].decode("ascii"), told, token=token)))


def ask_identity(ask: Callable[[str], bytes], *, token: str) -> Identity | None:
    """Return the identity of a gateway that holds this token; None where something else answers.

    `ask` requests a path with its query and returns the body.
    """
    nonce = secrets.token_urlsafe(24)
    try:
        answer = msgspec.json.decode(ask(f"{PATH.decode()}?nonce={nonce}"), type=_Proved)
        if not hmac.compare_digest(answer.proof, _proof(nonce, answer.told, token=token)):
            return None
        return msgspec.json.decode(answer.told, type=Identity)
    except (OSError, ValueError, RecursionError, TypeError):
        return None


def _proof(nonce: str, told: str, *, token: str) -> str:
    return hmac.new(token.encode(), f"{nonce}\0{told}".encode(), hashlib.sha256).hexdigest()


SUFFIX = ".control-token"

_token = re.compile(r"[A-Za-z0-9_-]{32,128}")


def make_token() -> str:
    """Return a fresh token."""
    return secrets.token_urlsafe(32)


def find_token_file(store: Path) -> Path:
    """Return where the token of a store is kept."""
    return store.with_name(store.name + SUFFIX)


def load_token(store: Path) -> str:
    """Return the token of a store, made if there is none yet; gateways that share a store share it.

    A file that others could read, or that holds something else, is replaced.

    Raises:
        CannotKeepToken: The file cannot be read or written.
    """
    path = find_token_file(store)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _private_token(path) or _written(path, make_token())
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
