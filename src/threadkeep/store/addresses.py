"""Addresses of database servers without their credentials: which hosts, which database.

A password that was not percent-encoded splits an address in the wrong place, and part of it then looks like a host or database.
So an address is shown only where there is one way to read it, the driver's.
"""

from __future__ import annotations

import re

# A name, numbers, brackets around those of IPv6, or a percent-encoded path; and a port.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]#]*)(?::\d{0,5})?")
_DATABASE = re.compile(r"[^\s/#]*")
SERVERS = ("postgresql://", "postgres://")
UNREADABLE = "postgresql://…"
ADDRESS_FORM = (
    "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE and percent-encode special characters in each part: %2F for /, "
    "%40 for @, %3F for ?, %23 for #, %25 for %"
)


def redact_address(address: str) -> str | None:
    """Return a server's address without user, password and parameters; None where it is unclear which part is which."""
    scheme = next((each for each in SERVERS if address.startswith(each)), None)
    if scheme is None:
        return None
    rest = address.removeprefix(scheme)
    # A second @, or one behind a slash, may belong to a password; the driver takes the rest of that for a host or database.
    credentials, at, reached = rest.partition("@")
    if "@" in reached or (at and "/" in credentials) or "\0" in rest:
        return None
    place = (reached if at else rest).partition("?")[0]
    hosts, _, database = place.partition("/")
    if not all(map(_HOST.fullmatch, hosts.split(","))) or _DATABASE.fullmatch(database) is None:
        return None
    return f"postgresql://{hosts or 'local'}/{database}"
