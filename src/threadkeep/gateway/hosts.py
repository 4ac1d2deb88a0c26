"""Which addresses are this machine, and which requests may therefore be served.

A web page can point its own name at 127.0.0.1 and so reach a server that only listens there. The browser then still sends
that page's name as Host, and its origin: both are checked before anything else is.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address without brackets and port, can only be this machine."""
    name = host.lower().removesuffix(".")
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def host_allowed(header: str, *, allowed: Collection[str]) -> bool:
    """Whether a Host header names this machine or one of `allowed`, whatever port it adds."""
    host = _hostname(f"//{header}")
    return host is not None and (is_loopback(host) or host in allowed)


def origin_allowed(header: str) -> bool:
    """Whether an Origin header names a page served by this machine; an opaque origin (`null`) does not."""
    host = _hostname(header) if header.startswith(("http://", "https://")) else None
    return host is not None and is_loopback(host)


def _hostname(url: str) -> str | None:
    # `urlsplit` drops tabs and line breaks, so that two texts would name one host.
    if not url.isascii() or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        # Reading the port validates it. User information before a host, or anything behind it, dresses one name as another.
        is_plain = parts.port != 0 and "@" not in parts.netloc and not (parts.path or parts.query or parts.fragment)
        return parts.hostname if is_plain and not url.endswith(("?", "#")) else None
    except ValueError:
        return None
