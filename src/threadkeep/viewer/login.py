"""Login of the viewer: a credential is shown once, and the browser then keeps a signed ticket that opens these pages only.

Browsers send a cookie to every port of a machine, so the cookie never holds the credential itself.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

COOKIE = "threadkeep_ui"
LIFE_SECONDS = 12 * 60 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A visitor who may see a tenant's threads; tenant None is that of a gateway without keys.

    `keys` are the first characters of the digests of the keys this rests on; the visit ends when any of them is removed.
    """

    tenant: str | None
    keys: frozenset[str] = frozenset()


class Tickets:
    """Issues and checks tickets. Processes that share `secret` accept each other's tickets."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), b"threadkeep viewer ticket", "sha256")

    def issue(self, guest: Guest, *, now: float) -> str:
        """Return a ticket for the next twelve hours."""
        tenant = "" if guest.tenant is None else f"={guest.tenant}={','.join(sorted(guest.keys))}"
        claim = urlsafe_b64encode(f"{int(now) + LIFE_SECONDS}{tenant}".encode()).decode()
        return f"{claim}.{self._sign(claim)}"

    def read(self, ticket: str, *, now: float) -> Guest | None:
        """Return the visitor of a ticket; None if we did not sign it or it has expired."""
        claim, _, signature = ticket.partition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(claim).encode()):
            return None
        try:
            until, named, whose = urlsafe_b64decode(claim).decode().partition("=")
        except (Base64Error, UnicodeDecodeError):
            return None
        tenant, _, keys = whose.partition("=")
        guest = Guest(tenant=tenant, keys=frozenset(keys.split(",") if keys else ())) if named else Guest(tenant=None)
        return guest if int(until) > now else None

    def _sign(self, claim: str) -> str:
        return urlsafe_b64encode(hmac.digest(self._key, claim.encode("utf-8", "replace"), "sha256")).decode().rstrip("=")


def name_cookie(host: str) -> str:
    """Return the cookie's name, one for each port: viewers on one machine must not overwrite each other's."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE


def find_ticket(header: str, *, name: str) -> str:
    """Return the ticket in a Cookie header, or the empty string."""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def render_cookie(name: str, ticket: str) -> str:
    """Return the Set-Cookie header for a ticket; an empty ticket deletes the cookie."""
    life = LIFE_SECONDS if ticket else 0
    return f"{name}={ticket}; Path=/ui; Max-Age={life}; HttpOnly; SameSite=Lax"
