"""HTTP responses: pages, data and assets, each with headers that let the browser do nothing else with them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from threadkeep.gateway.http.asgi import Caller

# Nothing but our own files runs, styles or loads; no page frames this one; forms go nowhere else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
GUARDS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # With no referrer at all a browser also hides where a form comes from, and that is what is checked.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer."""

    status: int = 200
    body: bytes = b""
    content_type: bytes = b"text/html; charset=utf-8"
    cache: bytes = b"no-store"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def write(self, caller: Caller) -> None:
        """Write it, with the headers every answer has."""
        length = (b"content-length", str(len(self.body)).encode())
        named = ((b"content-type", self.content_type), (b"cache-control", self.cache), length)
        await caller.start(self.status, [*named, *GUARDS, *self.headers])
        await caller.end(self.body)


def redirect(location: str, *headers: tuple[bytes, bytes]) -> Answer:
    """Send a browser to another page of ours."""
    return Answer(status=303, headers=((b"location", location.encode("ascii")), *headers))


@cache
def _assets() -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files("threadkeep.viewer").joinpath("assets").iterdir() if file.is_file()}


@cache
def assets_version() -> str:
    """Return what changes whenever an asset does: addresses carry it, so that browsers keep what they have until then."""
    digest = hashlib.sha256()
    for name, data in sorted(_assets().items()):
        digest.update(name.encode() + b"\0" + data)
    return digest.hexdigest()[:12]


def asset(name: str) -> Answer | None:
    """Return a file that pages need; None where there is none of that name."""
    data = _assets().get(name)
    kind = TYPES.get(name[name.rfind(".") :])
    if data is None or kind is None:
        return None
    return Answer(body=data, content_type=kind, cache=b"public, max-age=31536000, immutable")
