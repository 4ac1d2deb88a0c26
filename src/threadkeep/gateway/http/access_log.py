"""One line of JSON per request: what kind of thing was asked, how it ended, how long it took. Content only where it is wanted."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec.json import encode

log = logging.getLogger("threadkeep.access")


@dataclass(slots=True, kw_only=True)
class Entry:
    """What is known about one request; filled in as it goes through.

    Attributes:
        route: A fixed word for where it went, never a piece of its URL.
        run: The launch of a client that it belongs to; see `threadkeep.gateway.http.metrics`.
        request: Its body; kept only for a log that shows content.
        forwarded: What went to the provider in its place; likewise.
    """

    method: str
    route: str = "unknown"
    tenant: str | None = None
    run: str | None = None
    request: bytes | None = field(default=None, repr=False)
    forwarded: bytes | None = field(default=None, repr=False)


class AccessLog:
    """Writes to the logger `threadkeep.access`, where whoever runs the gateway can pick it up.

    It never holds headers, queries, credentials or keys, nor, unless `content` is on, the words of a client or provider.
    """

    def __init__(self, *, content: bool = False) -> None:
        self.content = content

    def write(self, entry: Entry, *, status: int, seconds: float, received: int, sent: int, at: float, gone: bool) -> None:
        """Write the line of a request that is over; a status of 0 means that nothing was answered."""
        if not log.isEnabledFor(logging.INFO):
            return
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="milliseconds"),
            "method": entry.method if entry.method in METHODS else "other",
            "route": entry.route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "received_bytes": received,
            "sent_bytes": sent,
            "client_left": gone,
        }
        if entry.tenant is not None:
            line["tenant"] = entry.tenant
        if self.content and entry.request is not None:
            line["request"] = entry.request.decode("utf-8", "replace")
            if entry.forwarded is not None and entry.forwarded != entry.request:
                line["forwarded"] = entry.forwarded.decode("utf-8", "replace")
        log.info("%s", encode(line).decode())


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
