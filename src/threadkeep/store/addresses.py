"""Addresses of database servers as they may be told: which hosts, which database, and nothing of who is let in.

A password that was not percent-encoded makes another part of the address out of a part of itself, and whoever reads the address
by its signs alone then tells it. So an address is told only where there is one way to read it, the one the driver takes.
"""

from __future__ import annotations

import re

# A name, numbers, brackets around those of IPv6, or a percent-encoded path; and a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]#]*)(?::\d{0,5})?")
_DATABASE = re.compile(r"[^\s/#]*")
_SCHEMES = ("postgresql://", "postgres://")
UNREADABLE = "postgresql://…"
HOW_TO_WRITE_IT = (
    "it is postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and what is none of its own signs is percent-encoded: %2F for /, "
    "%40 for @, %3F for ?, %23 for #, %25 for %"
)


def redact_address(address: str) -> str | None:
    """Return a server's address without user, password and parameters; None where it cannot be told which part is which."""
    scheme = next((each for each in _SCHEMES if address.startswith(each)), None)
    if scheme is None:
        return None
    rest = address.removeprefix(scheme)
    # A second one, or one behind a slash, may belong to a password; the driver takes the rest of that for a host or database.
    entering, at, reached = rest.partition("@")
    if "@" in reached or (at and "/" in entering) or "\0" in rest:
        return None
    place = (reached if at else rest).partition("?")[0]
    hosts, _, database = place.partition("/")
    if not all(map(_HOST.fullmatch, hosts.split(","))) or _DATABASE.fullmatch(database) is None:
        return None
    return f"postgresql://{hosts or 'local'}/{database}"
