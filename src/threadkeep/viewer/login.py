"""Who may look: a credential is shown once, and from then on the browser holds a signed ticket that opens these pages alone.

Cookies know no ports: whatever else serves on this machine is sent them too. So the cookie never holds the credential itself.
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
    """Someone who may look at a tenant's threads; None is the tenant of a gateway without keys.

    `keys` are the beginnings of the digests of the keys this rests on: it ends with any of them.
    """

    tenant: str | None
    keys: frozenset[str] = frozenset()


class Tickets:
    """Makes and checks tickets. Whoever shares `secret` takes each other's, so that replicas of one gateway do."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), b"threadkeep viewer ticket", "sha256")

    def issue(self, guest: Guest, *, now: float) -> str:
        """Return a ticket for the next twelve hours."""
        tenant = "" if guest.tenant is None else f"={guest.tenant}={','.join(sorted(guest.keys))}"
        claim = urlsafe_b64encode(f"{int(now) + LIFE_SECONDS}{tenant}".encode()).decode()
        return f"{claim}.{self._signed(claim)}"

    def read(self, ticket: str, *, now: float) -> Guest | None:
        """Return whose ticket it is; None where it is not ours, or too old."""
        claim, _, signature = ticket.partition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signed(claim).encode()):
            return None
        try:
            until, named, whose = urlsafe_b64decode(claim).decode().partition("=")
        except (Base64Error, UnicodeDecodeError):
            return None
        tenant, _, keys = whose.partition("=")
        guest = Guest(tenant=tenant, keys=frozenset(keys.split(",") if keys else ())) if named else Guest(tenant=None)
        return guest if int(until) > now else None

    def _signed(self, claim: str) -> str:
        return urlsafe_b64encode(hmac.digest(self._key, claim.encode("utf-8", "replace"), "sha256")).decode().rstrip("=")


def cookie_name(host: str) -> str:
    """Return the cookie's name: viewers on several ports of one machine would otherwise overwrite each other's."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE


def ticket_in(header: str, *, name: str) -> str:
    """Return the ticket among a browser's cookies, or the empty string."""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def set_cookie(name: str, ticket: str) -> str:
    """Return the header that gives a browser its ticket, and, with an empty one, takes it away."""
    life = LIFE_SECONDS if ticket else 0
    return f"{name}={ticket}; Path=/ui; Max-Age={life}; HttpOnly; SameSite=Lax"
