"""Gateway keys: which tenant a request belongs to, and what of the key must not travel on.

A key is not a provider's credential and does not take its place. It is looked for, in this order,

1. in the URL, before everything else: `/k/KEY/v1/…`, for clients of which only the base URL can be set;
2. in the header `X-Threadkeep-Key`;
3. where the provider's credential stands (`Authorization: Bearer`, `x-api-key`), and there only if it *is* one of the keys: any
   other value there is the provider's own and passes through.

A request may hold keys in several places. Every header and every part of the query that holds one is left out before anything
else sees the request, so that no log, no store and no provider ever does; a key anywhere else in the path is refused. Bodies are
the client's own and are not searched. A key that `make_key` made is found inside any text; another one where it stands as a word.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import logging
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote_to_bytes

from threadkeep.errors import BadInput, InvalidSetting, UnusableFile
from threadkeep.gateway.http.exchange import Call
from threadkeep.gateway.http.headers import RawHeaders
from threadkeep.gateway.http.routes import ENDPOINTS

log = logging.getLogger("threadkeep.gateway")

KEY_HEADER = b"x-threadkeep-key"
CREDENTIAL_HEADERS = (b"authorization", *(each.key_header.encode() for each in ENDPOINTS if each.key_header))
URL_PREFIX = b"/k/"
DIGEST_PREFIX = "sha256:"
SHOWN_CHARS = len(DIGEST_PREFIX) + 12

_digest = re.compile(r"sha256:[0-9a-f]{64}")
_FORM = 'must hold one table [keys] with lines such as "sha256:HEX" = "tenant"'
# What `make_key` makes, wherever it stands; overlapping matches count.
_made_here = re.compile(rb"(?=tkk_[A-Za-z0-9_-]{43})")
_between_words = re.compile(rb"""[\s,;=/?&:@#|"'<>()\[\]{}]+""")
# Digests of shorter words are not worth their time: no key is that short.
SHORTEST_KEY = 8
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
            InvalidSetting: A digest or a tenant's name is not of the right form.
        """
        self._tenants = self._checked(tenants)

    def owns(self, word: bytes) -> bool:
        """Whether a word of a request is one of the keys."""
        return digest_key(word.decode("latin-1")) in self._tenants

    @staticmethod
    def _checked(tenants: Mapping[str, object]) -> dict[str, str]:
        checked: dict[str, str] = {}
        for digest, tenant in tenants.items():
            if _digest.fullmatch(digest) is None:
                text = f"the key of tenant {tenant!r} must be given as sha256:HEX; `threadkeep key {tenant}` makes one"
                raise InvalidSetting("keys", text)
            if not isinstance(tenant, str) or _tenant.fullmatch(tenant) is None:
                text = f"{tenant!r} cannot name a tenant; use letters, digits, '.', '_' or '-'"
                raise InvalidSetting("keys", text)
            checked[digest] = tenant
        return checked

    def tenant_of(self, key: str) -> str | None:
        """Return whose key this is. Takes the same time whichever it is, and if it is none."""
        asked = digest_key(key)
        found = None
        for digest, tenant in self._tenants.items():
            if hmac.compare_digest(digest, asked):
                found = tenant
        return found

    def list_digests(self, tenant: str) -> list[str]:
        """Return the beginnings of the digests of a tenant's keys: enough to tell them apart, too little to guess one by."""
        return [f"{digest[:SHOWN_CHARS]}…" for digest, owner in self._tenants.items() if owner == tenant]


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


def digest_key(key: str) -> str:
    """Return how a key is written down. Keys are random and long, so one round of a plain hash hides them."""
    return DIGEST_PREFIX + hashlib.sha256(key.encode()).hexdigest()


def make_key() -> str:
    """Return a fresh key."""
    return f"tkk_{secrets.token_urlsafe(32)}"


def _written_in(path: Path) -> Mapping[str, object]:
    tenants = _table_in(path)
    if not tenants:
        raise UnusableFile(str(path), reason=_FORM)
    return tenants


def _left_in(path: Path) -> Mapping[str, object]:
    """Read a file of keys again; a deleted or empty file has no keys."""
    try:
        path.stat()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UnusableFile(str(path), reason=f"cannot be read as a file of keys: {error}") from error
    return _table_in(path)


def _table_in(path: Path) -> Mapping[str, object]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableFile(str(path), reason=f"cannot be read as a file of keys: {error}") from error
    tenants = values.get("keys", {})
    if not isinstance(tenants, dict) or not set(values) <= {"keys"}:
        raise UnusableFile(str(path), reason=_FORM)
    return tenants


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def strip_key(call: Call) -> Call:
    """Return a request without the key in its URL and the header made for it."""
    path, _ = _without_url_key(call.path)
    return replace(call, path=path, headers=[(name, value) for name, value in call.headers if name.lower() != KEY_HEADER])


def admit(call: Call, keys: Keys | None) -> Admitted | None:
    """Return the request without any key, and whose it is; None where a key is needed and none of ours is there."""
    bare = strip_key(call)
    tenant = _tenant_of(call, keys) if keys is not None else None
    if keys is not None and tenant is None:
        return None
    headers = [(name, value) for name, value in bare.headers if not has_key(value, keys)]
    query = b"&".join(part for part in bare.query.split(b"&") if not has_key(part, keys))
    return Admitted(call=replace(bare, headers=headers, query=query), tenant=tenant)


def has_key(text: bytes, keys: Keys | None) -> bool:
    """Whether a header's value or a part of a URL holds one of the keys, or something of their form, however it is encoded."""
    scheme, _, rest = text.strip().partition(b" ")
    forms = [text, unquote_to_bytes(text)]
    if scheme.lower() == b"basic":
        forms.append(_from_base64(rest))
    if any(_made_here.search(form) for form in forms):
        return True
    if keys is None:
        return False
    words = {word for form in forms for word in (form.strip(), *_between_words.split(form)) if len(word) >= SHORTEST_KEY}
    return keys.owns(rest.strip()) or any(keys.owns(word) for word in words)


def _tenant_of(call: Call, keys: Keys) -> str | None:
    """Return whose key a request brings, in the first of the places where one can stand."""
    _, in_url = _without_url_key(call.path)
    if in_url is not None:
        return keys.tenant_of(in_url)
    given = [value for name, value in call.headers if name.lower() == KEY_HEADER]
    if given:
        tenants = {keys.tenant_of(value.decode("latin-1").strip()) for value in given}
        return tenants.pop() if len(tenants) == 1 else None
    found = (keys.tenant_of(credential) for credential in _credentials(call.headers))
    return next((tenant for tenant in found if tenant is not None), None)


def _from_base64(text: bytes) -> bytes:
    try:
        return binascii.a2b_base64(text)
    except binascii.Error:
        return b""


def _without_url_key(path: bytes) -> tuple[bytes, str | None]:
    if not path.startswith(URL_PREFIX):
        return path, None
    key, slash, rest = path.removeprefix(URL_PREFIX).partition(b"/")
    return slash + rest or b"/", key.decode("latin-1")


def _credentials(headers: RawHeaders) -> Iterator[str]:
    """Yield what stands in the headers in which a provider's credential can stand."""
    for name, value in headers:
        if name.lower() in CREDENTIAL_HEADERS:
            text = value.decode("latin-1").strip()
            scheme, _, token = text.partition(" ")
            yield token.strip() if scheme.lower() == "bearer" else text
