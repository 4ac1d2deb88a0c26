"""The viewer as a server of its own, for `threadkeep view`: the same pages, on one store, for this machine only."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Collection

from threadkeep.client import Threadkeep
from threadkeep.dialects import DEFAULT
from threadkeep.gateway.call import Call
from threadkeep.gateway.caller import Caller, Receive, Scope, Send
from threadkeep.gateway.doorway import turned_away
from threadkeep.viewer.answers import Answer, redirect
from threadkeep.viewer.app import Viewer, without_own_origin
from threadkeep.viewer.tickets import Guest


class StandAlone:
    """An ASGI application around a viewer. `passes` open it: the store's control token, and one made for this run."""

    def __init__(
        self, tk: Threadkeep, *, passes: Collection[str], allow_changes: bool, now: Callable[[], float] = time.time
    ) -> None:
        self._tk = tk
        self._passes = tuple(passes)
        self._stopping = asyncio.Event()
        self._viewer = Viewer(
            self._store,
            unlock=self._unlock,
            admits=self._admits,
            secret="\n".join(passes),
            stopping=self._stopping,
            allow_changes=allow_changes,
            now=now,
        )

    def stop(self) -> None:
        """End what would not end by itself."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the viewer speaks HTTP, not {scope['type']}")
        call = Call.of(scope)
        caller = Caller(receive, send, has_body=call.has_body)
        refusal = turned_away(without_own_origin(call), hosts=frozenset())
        if refusal is not None:
            body = DEFAULT.wire.render_error(refusal.status, refusal.code, refusal.message)
            await Answer(status=refusal.status, body=body, content_type=b"application/json").write(caller)
        elif call.path == b"/ui" or call.path.startswith(b"/ui/"):
            await self._viewer.answer(call, caller)
        else:
            await redirect("/ui/").write(caller)

    async def _store(self, _: str | None) -> Threadkeep:
        return self._tk

    def _unlock(self, credential: str) -> Guest | None:
        known = [hmac.compare_digest(credential.encode(), each.encode()) for each in self._passes]
        return Guest(tenant=None) if any(known) else None

    def _admits(self, _: Guest) -> bool:
        """Passes and the secret that signs tickets are those of this run: none is ever taken back before it ends."""
        return True
