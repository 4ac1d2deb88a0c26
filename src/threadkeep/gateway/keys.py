"""Gateway keys: which tenant a request belongs to, and what of the key must not travel on.

A key is not a provider's credential and does not take its place. It is looked for, in this order,

1. in the URL, before everything else: `/k/KEY/v1/…`, for clients of which only the base URL can be set;
2. in the header `X-Threadkeep-Key`;
3. where the provider's credential stands (`Authorization: Bearer`, `x-api-key`), and there only if it *is* one of the keys: any
   other value there is the provider's own and passes through.

Wherever it was found it is taken out before anything else sees the request, so that no log and no provider ever does.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from threadkeep.errors import BadInput
from threadkeep.gateway.call import Call
from threadkeep.gateway.headers import RawHeaders

log = logging.getLogger("threadkeep.gateway")

KEY_HEADER = b"x-threadkeep-key"
CREDENTIAL_HEADERS = (b"authorization", b"x-api-key")
URL_PREFIX = b"/k/"
DIGEST_PREFIX = "sha256:"
SHOWN_CHARS = len(DIGEST_PREFIX) + 12

_digest = re.compile(r"sha256:[0-9a-f]{64}")
_FORM = 'must hold one table [keys] with lines such as "sha256:HEX" = "tenant"'
_tenant = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A request as everyone after the door sees it; `tenant` is None where the gateway has no keys."""

    call: Call
    tenant: str | None


class Keys:
    """The keys of a gateway, known by their digests alone."""

    def __init__(self, tenants: Mapping[str, object]) -> None:
        """Take `sha256:…` digests and whose they are.

        Raises:
            BadInput: A digest or a tenant's name is not of the right form.
        """
        self._tenants = self._checked(tenants)

    @staticmethod
    def _checked(tenants: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        checked: list[tuple[str, str]] = []
        for digest, tenant in tenants.items():
            if _digest.fullmatch(digest) is None:
                raise BadInput(f"the key of tenant {tenant!r} must be given as sha256:HEX; `threadkeep key {tenant}` makes one")
            if not isinstance(tenant, str) or _tenant.fullmatch(tenant) is None:
                raise BadInput(f"{tenant!r} cannot name a tenant; use letters, digits, '.', '_' or '-'")
            checked.append((digest, tenant))
        return tuple(checked)

    def tenant_of(self, key: str) -> str | None:
        """Return whose key this is. Takes the same time whichever it is, and if it is none."""
        asked = digest_of(key)
        found = None
        for digest, tenant in self._tenants:
            if hmac.compare_digest(digest, asked):
                found = tenant
        return found

    def held_by(self, tenant: str) -> list[str]:
        """Return the beginnings of the digests of a tenant's keys: enough to tell them apart, too little to guess one by."""
        return [f"{digest[:SHOWN_CHARS]}…" for digest, owner in self._tenants if owner == tenant]


class KeysFile(Keys):
    """The keys of a file, read again whenever it changes: one that was added opens the door, one that was taken out no longer.

    The file is TOML; its table `[keys]` maps each digest to a tenant. A gateway starts with at least one key, but a file that is
    emptied or deleted while it serves takes back every key: the last one, too, must be revocable at once. While it cannot be read
    or understood, what it said before holds, and the log says so.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            BadInput: It cannot be read or understood.
        """
        self._path = path
        self._stamp = _stamp(path)
        super().__init__(_written_in(path))

    def tenant_of(self, key: str) -> str | None:
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._tenants = self._checked(_left_in(self._path))
            except BadInput as error:
                log.warning("the keys are those from before: %s", error)
            else:
                if not self._tenants:
                    log.warning("%s holds no key any more; nobody is let in until it does", self._path)
        return super().tenant_of(key)


def digest_of(key: str) -> str:
    """Return how a key is written down. Keys are random and long, so one round of a plain hash hides them."""
    return DIGEST_PREFIX + hashlib.sha256(key.encode()).hexdigest()


def new_key() -> str:
    """Return a fresh key."""
    return f"tkk_{secrets.token_urlsafe(32)}"


def _written_in(path: Path) -> Mapping[str, object]:
    tenants = _table_in(path)
    if not tenants:
        raise BadInput(f"{path} {_FORM}")
    return tenants


def _left_in(path: Path) -> Mapping[str, object]:
    """Return what a file says that was there before: nothing, where it is gone or emptied."""
    try:
        path.stat()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"the file of keys {path} cannot be read: {error}") from error
    return _table_in(path)


def _table_in(path: Path) -> Mapping[str, object]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"the file of keys {path} cannot be read: {error}") from error
    tenants = values.get("keys", {})
    if not isinstance(tenants, dict) or not set(values) <= {"keys"}:
        raise BadInput(f"{path} {_FORM}")
    return tenants


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def keyless(call: Call) -> Call:
    """Return a request without the key in its URL and the header made for it."""
    path, _ = _without_url_key(call.path)
    return replace(call, path=path, headers=[(name, value) for name, value in call.headers if name.lower() != KEY_HEADER])


def admit(call: Call, keys: Keys | None) -> Admitted | None:
    """Return the request without its key, and whose it is; None where a key is needed and none of ours is there."""
    bare = keyless(call)
    if keys is None:
        return Admitted(call=bare, tenant=None)
    _, in_url = _without_url_key(call.path)
    if in_url is not None:
        return _admitted(bare, keys.tenant_of(in_url))
    given = [value for name, value in call.headers if name.lower() == KEY_HEADER]
    if given:
        tenants = {keys.tenant_of(value.decode("latin-1").strip()) for value in given}
        return _admitted(bare, tenants.pop() if len(tenants) == 1 else None)
    for name, value, credential in _credentials(bare.headers):
        tenant = keys.tenant_of(credential)
        if tenant is not None:
            kept = [header for header in bare.headers if header != (name, value)]
            return Admitted(call=replace(bare, headers=kept), tenant=tenant)
    return None


def _admitted(call: Call, tenant: str | None) -> Admitted | None:
    return Admitted(call=call, tenant=tenant) if tenant is not None else None


def _without_url_key(path: bytes) -> tuple[bytes, str | None]:
    if not path.startswith(URL_PREFIX):
        return path, None
    key, slash, rest = path.removeprefix(URL_PREFIX).partition(b"/")
    return slash + rest or b"/", key.decode("latin-1")


def _credentials(headers: RawHeaders) -> Iterator[tuple[bytes, bytes, str]]:
    """Yield the headers in which a provider's credential can stand, and what stands there."""
    for name, value in headers:
        if name.lower() in CREDENTIAL_HEADERS:
            text = value.decode("latin-1").strip()
            scheme, _, token = text.partition(" ")
            yield name, value, token.strip() if scheme.lower() == "bearer" else text
