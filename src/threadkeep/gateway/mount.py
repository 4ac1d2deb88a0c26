"""What the gateway serves under `/ui`: pages that whoever starts it brings along. They know the gateway, never the reverse."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from threadkeep.client import Threadkeep
from threadkeep.gateway.call import Call
from threadkeep.gateway.caller import Caller
from threadkeep.gateway.keys import Keys

ROOT = b"/ui"


class Pages(Protocol):
    """Answers what lies below `/ui`."""

    def forgives(self, call: Call) -> Call:
        """Return a request as the door is to judge it: without an Origin that is the very host it goes to."""
        ...

    async def serve(self, call: Call, caller: Caller, *, tenant: str | None, known: bool) -> None:
        """Answer a request; `known` says that its headers opened `tenant`'s threads already."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a gateway gives its pages: the stores, what decides about a credential, and what ends their streams.

    `token` opens the tenant without keys, and signs what pages hand out.
    """

    stores: Callable[[str | None], Awaitable[Threadkeep]]
    token: str = field(repr=False)
    keys: Keys | None
    stopping: asyncio.Event

    def opens(self, credential: str) -> tuple[str | None] | None:
        """Return whose threads a credential opens, alone in a tuple since None names a tenant too; None where it opens none."""
        if hmac.compare_digest(credential.encode(), self.token.encode()):
            return (None,)
        tenant = self.keys.tenant_of(credential) if self.keys is not None else None
        return None if tenant is None else (tenant,)


MakePages = Callable[[Ground], Pages]


def is_below(path: bytes) -> bool:
    """Whether a path, without a key in it, is one of the pages'."""
    return path == ROOT or path.startswith(ROOT + b"/")
