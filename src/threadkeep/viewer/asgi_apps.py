"""Two ways to serve the viewer: on its own (`threadkeep view`), and below `/ui` of a gateway (`threadkeep serve`)."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Collection

from threadkeep.client import Threadkeep
from threadkeep.dialects import DEFAULT
from threadkeep.gateway.app import MakePages, PageContext
from threadkeep.gateway.http.asgi import Call, Caller, Receive, Scope, Send
from threadkeep.gateway.http.guards import find_refusal
from threadkeep.gateway.http.keys import digest_key
from threadkeep.viewer.app import Viewer, drop_own_origin
from threadkeep.viewer.login import Guest
from threadkeep.viewer.responses import Response, redirect


class StandaloneViewer:
    """An ASGI application for one store. `passes` open it: the store's control token, and one made for this run."""

    def __init__(
        self, tk: Threadkeep, *, passes: Collection[str], allow_changes: bool, now: Callable[[], float] = time.time
    ) -> None:
        self._tk = tk
        self._passes = tuple(passes)
        self._stopping = asyncio.Event()
        self._viewer = Viewer(
            self._open_store,
            unlock=self._unlock,
            admits=lambda _: True,
            secret="\n".join(passes),
            stopping=self._stopping,
            allow_changes=allow_changes,
            now=now,
        )

    def stop(self) -> None:
        """End the streams of events, which do not end by themselves."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the viewer speaks HTTP, not {scope['type']}")
        call = Call.of(scope)
        caller = Caller(receive, send, has_body=call.has_body)
        refusal = find_refusal(drop_own_origin(call), hosts=frozenset())
        if refusal is not None:
            body = DEFAULT.wire.render_error(refusal.status, refusal.code, refusal.message)
            await Response(status=refusal.status, body=body, content_type=b"application/json").send(caller)
        elif call.path == b"/ui" or call.path.startswith(b"/ui/"):
            await self._viewer.answer(call, caller)
        else:
            await redirect("/ui/").send(caller)

    async def _open_store(self, _: str | None) -> Threadkeep:
        return self._tk

    def _unlock(self, credential: str) -> Guest | None:
        matches = [hmac.compare_digest(credential.encode(), each.encode()) for each in self._passes]
        return Guest(tenant=None) if any(matches) else None


def mount_viewer(*, allow_changes: bool = False) -> MakePages:
    """Return a factory of the pages that a gateway serves below `/ui`."""

    def make(ground: PageContext) -> MountedViewer:
        return MountedViewer(ground, allow_changes=allow_changes)

    return make


class MountedViewer:
    """The viewer in a gateway, with the gateway's keys and tenants. A request that carries a key needs no ticket.

    A key that was removed opens nothing from the next request on, and ends every visit that rests on it.
    """

    def __init__(self, ground: PageContext, *, allow_changes: bool) -> None:
        self._ground = ground
        self._viewer = Viewer(
            ground.stores,
            unlock=self._unlock,
            admits=self._admits,
            secret=ground.token,
            stopping=ground.stopping,
            allow_changes=allow_changes,
        )

    def forgives(self, call: Call) -> Call:
        return drop_own_origin(call)

    async def serve(self, call: Call, caller: Caller, *, tenant: str | None, known: bool) -> None:
        # The gateway does not say which of the tenant's keys was used, so the ticket rests on all of them.
        guest = Guest(tenant=tenant, keys=self._list_keys(tenant)) if known else None
        await self._viewer.answer(call, caller, guest=guest)

    def _unlock(self, credential: str) -> Guest | None:
        opened = self._ground.opens(credential)
        if opened is None:
            return None
        digest = digest_key(credential)
        return Guest(tenant=opened[0], keys=frozenset(key for key in self._list_keys(opened[0]) if digest.startswith(key)))

    def _admits(self, guest: Guest) -> bool:
        """Whether every key the ticket rests on is still valid; one given for the control token rests on its signature."""
        return guest.tenant is None or (bool(guest.keys) and guest.keys <= self._list_keys(guest.tenant))

    def _list_keys(self, tenant: str | None) -> frozenset[str]:
        keys = self._ground.keys
        if keys is None or tenant is None:
            return frozenset()
        # Any question makes a file of keys reload itself if it changed.
        keys.tenant_of("")
        return frozenset(shown.rstrip("…") for shown in keys.list_digests(tenant))
