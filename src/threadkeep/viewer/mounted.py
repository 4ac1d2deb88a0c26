"""The viewer below `/ui` of a gateway: the same token and keys, the same tenants."""

from __future__ import annotations

from threadkeep.gateway.call import Call
from threadkeep.gateway.caller import Caller
from threadkeep.gateway.keys import digest_of
from threadkeep.gateway.mount import Ground, MakePages
from threadkeep.viewer.app import Viewer, without_own_origin
from threadkeep.viewer.tickets import Guest


def mounted_viewer(*, allow_changes: bool = False) -> MakePages:
    """Return what makes a gateway's pages."""

    def make(ground: Ground) -> MountedViewer:
        return MountedViewer(ground, allow_changes=allow_changes)

    return make


class MountedViewer:
    """A viewer as a gateway mounts it. Who comes with a key needs no other ticket; the rest show theirs.

    A key that was taken out opens nothing from the next request on, and ends what was opened with it.
    """

    def __init__(self, ground: Ground, *, allow_changes: bool) -> None:
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
        return without_own_origin(call)

    async def serve(self, call: Call, caller: Caller, *, tenant: str | None, known: bool) -> None:
        # Which of the tenant's keys it was is not told here; so a ticket rests on all of them.
        guest = Guest(tenant=tenant, keys=self._held_by(tenant)) if known else None
        await self._viewer.answer(call, caller, guest=guest)

    def _unlock(self, credential: str) -> Guest | None:
        opened = self._ground.opens(credential)
        if opened is None:
            return None
        digest = digest_of(credential)
        return Guest(tenant=opened[0], keys=frozenset(key for key in self._held_by(opened[0]) if digest.startswith(key)))

    def _admits(self, guest: Guest) -> bool:
        """Whether every key that a guest's ticket rests on still opens; that of the control token rests on its signature."""
        return guest.tenant is None or (bool(guest.keys) and guest.keys <= self._held_by(guest.tenant))

    def _held_by(self, tenant: str | None) -> frozenset[str]:
        keys = self._ground.keys
        if keys is None or tenant is None:
            return frozenset()
        # A file of keys is read again when it is asked about one, whichever.
        keys.tenant_of("")
        return frozenset(shown.rstrip("…") for shown in keys.held_by(tenant))
