"""HTTP responses of the viewer: pages, data, assets and event streams, each with headers that keep a browser safe."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from threadkeep.gateway.http.exchange import Caller

# Only our own files may run, style or load; no page may frame this one; forms go nowhere else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # With `no-referrer` a browser would also hide the Origin of a form, which we check.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
CONTENT_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A whole response."""

    status: int = 200
    body: bytes = b""
    content_type: bytes = b"text/html; charset=utf-8"
    cache: bytes = b"no-store"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, caller: Caller) -> None:
        """Send the response with the security headers."""
        length = (b"content-length", str(len(self.body)).encode())
        named = ((b"content-type", self.content_type), (b"cache-control", self.cache), length)
        await caller.start(self.status, [*named, *SECURITY_HEADERS, *self.headers])
        await caller.end(self.body)


def redirect(location: str, *headers: tuple[bytes, bytes]) -> Response:
    """Send the browser to another page of the viewer."""
    return Response(status=303, headers=((b"location", location.encode("ascii")), *headers))


async def send_events(caller: Caller, events: AsyncIterator[bytes], *, is_admitted: Callable[[], bool]) -> None:
    """Stream events until they end, the page is closed, or the visitor is no longer admitted."""

    async def write() -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        await caller.start(200, [*headers, *SECURITY_HEADERS])
        async for chunk in events:
            if not is_admitted():
                break
            await caller.write(chunk)
        await caller.end()

    await caller.run_while_connected(write())


@cache
def _read_assets() -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files("threadkeep.viewer").joinpath("assets").iterdir() if file.is_file()}


@cache
def hash_assets() -> str:
    """Return a version of all assets; it is part of their addresses, so browsers may cache them for ever."""
    digest = hashlib.sha256()
    for name, data in sorted(_read_assets().items()):
        digest.update(name.encode() + b"\0" + data)
    return digest.hexdigest()[:12]


def find_asset(name: str) -> Response | None:
    """Return an asset; None if there is none of that name."""
    data = _read_assets().get(name)
    content_type = CONTENT_TYPES.get(name[name.rfind(".") :])
    if data is None or content_type is None:
        return None
    return Response(body=data, content_type=content_type, cache=b"public, max-age=31536000, immutable")
