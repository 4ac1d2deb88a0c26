"""One request, before its body is read."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote_to_bytes

from threadkeep.gateway.headers import RawHeaders, first

DECODED_TIMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request line and its headers; both may hold credentials."""

    method: str
    path: bytes = field(repr=False)
    query: bytes = field(repr=False)
    headers: RawHeaders = field(repr=False)

    @classmethod
    def of(cls, scope: MutableMapping[str, Any]) -> Self:
        """Return the request an ASGI server announces."""
        return cls(method=scope["method"], path=scope["raw_path"], query=scope["query_string"], headers=scope["headers"])

    @property
    def length(self) -> int:
        """The announced length of the body; 0 where none is announced."""
        announced = first(self.headers, b"content-length")
        return int(announced) if announced.isascii() and announced.isdigit() else 0

    @property
    def has_body(self) -> bool:
        return self.length > 0 or bool(first(self.headers, b"transfer-encoding"))

    @property
    def climbs(self) -> bool:
        """Whether the path names a folder's parent: behind a proxy it could leave the part of a server it was meant for."""
        decoded = self.path
        # A server behind the provider may decode once more, take `\\` for `/`, and leave out what follows a `;`.
        for _ in range(DECODED_TIMES):
            decoded = unquote_to_bytes(decoded)
        return any(segment.partition(b";")[0] in (b".", b"..") for segment in decoded.replace(b"\\", b"/").split(b"/"))

    def target(self, path: str) -> str:
        """Return `path` with the query this request came with.

        Raises:
            UnicodeDecodeError: The query holds bytes that no URL may hold.
        """
        return f"{path}?{self.query.decode('ascii')}" if self.query else path
