"""The server over streamable HTTP, on this machine, with a check of each request's credential.

The credential is the store's control token, or a gateway key, which opens its tenant's threads only. It may be in the URL
(`/k/KEY/mcp`), in `X-Threadkeep-Key` or in `Authorization: Bearer`; it is removed before the request is handed on. Host and
Origin are checked too, because a web page can reach loopback under a name of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings

from threadkeep.client import Threadkeep
from threadkeep.mcp.server import Context, make_server
from threadkeep.mcp.tools import Access

PATH = "/mcp"
URL_PREFIX = "/k/"
KEY_HEADER = b"x-threadkeep-key"
MOST_SESSIONS = 256
MOST_BYTES = 1 << 20
_HOSTS = ("127.0.0.1", "localhost", "[::1]")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """An admitted request; `tenant` is None for the store's control token."""

    tenant: str | None


# Given a credential, returns what it opens, or None.
Unlock = Callable[[str], Admitted | None]
StoreOf = Callable[[str | None], Awaitable[Threadkeep]]


@asynccontextmanager
async def http_app(
    store_of: StoreOf, *, unlock: Unlock, thread: str | None = None, read_only: bool = False, trusts_client: bool = False
) -> AsyncIterator[GuardedApp]:
    """Make the ASGI application; leaving the block ends its sessions."""

    async def access_of(context: Context) -> Access:
        admitted: Admitted = context.request.scope["threadkeep"]  # type: ignore[union-attr]  # over HTTP there is one
        tk = await store_of(admitted.tenant)
        return Access(tk=tk, thread=thread, trusts_client=trusts_client)

    server = make_server(access_of, read_only=read_only)
    inside: App = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MOST_BYTES,
        max_sessions=MOST_SESSIONS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[form for host in _HOSTS for form in (host, f"{host}:*")],
            allowed_origins=[form for host in _HOSTS for form in (f"http://{host}", f"http://{host}:*")],
        ),
    )
    async with server.session_manager.run():
        yield GuardedApp(inside, unlock)


class GuardedApp:
    """The ASGI application: admits requests with a valid credential."""

    def __init__(self, inside: App, unlock: Unlock) -> None:
        self._inside = inside
        self._unlock = unlock
        self._streams: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """End the streams that clients hold open, which do not end by themselves."""
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, credential, headers = _split_credential(scope)
        admitted = self._unlock(credential) if credential else None
        if path != PATH:
            await _refuse(send, 404, "unknown_path", f"the MCP server is at {PATH}")
        elif admitted is None:
            message = "the MCP server needs Authorization: Bearer TOKEN; `threadkeep mcp --http` says where the token is"
            await _refuse(send, 401, "token_required", message)
        else:
            # A session belongs to the credential that opened it; the SDK compares this name.
            who = AuthenticatedUser(AccessToken(token="", client_id=admitted.tenant or "", scopes=[]))
            known = {**scope, "path": path, "raw_path": path.encode(), "headers": headers, "user": who, "threadkeep": admitted}
            await (self._hold_open if scope["method"] == "GET" else self._inside)(known, receive, send)

    async def _hold_open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream until the client or `stop` ends it."""

        async def stream() -> None:
            await self._inside(scope, receive, send)

        task = asyncio.create_task(stream())
        self._streams.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            self._streams.discard(task)
            task.cancel()
        if task.cancelled():
            await send({"type": "http.response.body", "body": b""})
        else:
            task.result()


def _split_credential(scope: Scope) -> tuple[str, str, list[tuple[bytes, bytes]]]:
    """Return the path, the credential and the headers of a request, both without the credential."""
    path: str = scope["path"]
    in_url = ""
    if path.startswith(URL_PREFIX):
        in_url, slash, rest = path.removeprefix(URL_PREFIX).partition("/")
        path = slash + rest
    keys = [value.decode("latin-1").strip() for name, value in scope["headers"] if name == KEY_HEADER]
    bearers = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
    headers = [(name, value) for name, value in scope["headers"] if name not in (KEY_HEADER, b"authorization")]
    scheme, _, token = (bearers[0] if len(bearers) == 1 else "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    key = keys[0] if len(keys) == 1 else ""
    return path, in_url or key or bearer, headers


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    body = msgspec.json.encode({"error": {"code": code, "message": message}})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
