"""The server over streamable HTTP, on this machine: who may enter, and as whom.

A credential is needed: the control token of the store, or a gateway key, which opens its tenant's threads and no other's. It is
looked for in the URL (`/k/KEY/mcp`), in `X-Threadkeep-Key` and in `Authorization: Bearer`, and is taken out where it stands, so
that nothing behind the door sees it. A web page can reach a server on loopback under a name of its own, so Host and Origin are
checked too.
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
from threadkeep.mcp.tools import Desk

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
    """Who has entered; `tenant` is None for the holder of the store's own token."""

    tenant: str | None


# Given a credential, returns whose threads it opens, or None.
Unlock = Callable[[str], Admitted | None]
StoreOf = Callable[[str | None], Awaitable[Threadkeep]]


@asynccontextmanager
async def http_app(
    store_of: StoreOf, *, unlock: Unlock, thread: str | None = None, read_only: bool = False, trusts_client: bool = False
) -> AsyncIterator[Door]:
    """Make the ASGI application inside the block; sessions end when it is left."""

    async def desk_of(context: Context) -> Desk:
        admitted: Admitted = context.request.scope["threadkeep"]  # type: ignore[union-attr]  # over HTTP there is one
        tk = await store_of(admitted.tenant)
        return Desk(tk=tk, thread=thread, trusts_client=trusts_client)

    server = make_server(desk_of, read_only=read_only)
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
        yield Door(inside, unlock)


class Door:
    """The ASGI application: lets in who may, as whom they are."""

    def __init__(self, inside: App, unlock: Unlock) -> None:
        self._inside = inside
        self._unlock = unlock
        self._streams: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """End the streams that clients hold open; they would never end by themselves."""
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, given, headers = _without_credential(scope)
        admitted = self._unlock(given) if given else None
        if path != PATH:
            await _refuse(send, 404, "unknown_path", f"the MCP server is at {PATH}")
        elif admitted is None:
            message = "the MCP server needs Authorization: Bearer TOKEN; `threadkeep mcp --http` says where the token is"
            await _refuse(send, 401, "token_required", message)
        else:
            # Sessions belong to who opened them: the SDK compares this name with the one that did.
            who = AuthenticatedUser(AccessToken(token="", client_id=admitted.tenant or "", scopes=[]))
            known = {**scope, "path": path, "raw_path": path.encode(), "headers": headers, "user": who, "threadkeep": admitted}
            await (self._held_open if scope["method"] == "GET" else self._inside)(known, receive, send)

    async def _held_open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream that only the client, or `stop`, ends."""

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


def _without_credential(scope: Scope) -> tuple[str, str, list[tuple[bytes, bytes]]]:
    """Return a request's path, its credential and its headers, the credential taken out of both."""
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
