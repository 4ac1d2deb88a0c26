"""The viewer below `/ui` of a gateway: the same token and keys, the same tenants."""

from __future__ import annotations

from holdfast.gateway.call import Call
from holdfast.gateway.caller import Caller
from holdfast.gateway.mount import Ground, MakePages
from holdfast.viewer.app import Viewer, without_own_origin
from holdfast.viewer.tickets import Guest


def mounted_viewer(*, allow_changes: bool = False) -> MakePages:
    """Return what makes a gateway's pages."""

    def make(ground: Ground) -> MountedViewer:
        return MountedViewer(ground, allow_changes=allow_changes)

    return make


class MountedViewer:
    """A viewer as a gateway mounts it. Who comes with a key needs no other ticket; the rest show theirs."""

    def __init__(self, ground: Ground, *, allow_changes: bool) -> None:
        self._ground = ground
        self._viewer = Viewer(
            ground.stores, unlock=self._unlock, secret=ground.token, stopping=ground.stopping, allow_changes=allow_changes
        )

    def forgives(self, call: Call) -> Call:
        return without_own_origin(call)

    async def serve(self, call: Call, caller: Caller, *, tenant: str | None, known: bool) -> None:
        await self._viewer.answer(call, caller, guest=Guest(tenant=tenant) if known else None)

    def _unlock(self, credential: str) -> Guest | None:
        opened = self._ground.opens(credential)
        return None if opened is None else Guest(tenant=opened[0])
