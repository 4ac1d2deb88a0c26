"""What conversations through the gateway are shown of the memory: beside what the client says, never in its history.

A conversation keeps what it was shown with its first request, byte for byte, so that its prefix stays and what a provider bound
to it fits. Only where that memory was taken back, because somebody edited it or something was erased, is it shown the newest.
"""

from __future__ import annotations

from threadkeep.dialects import Dialect, Reply
from threadkeep.gateway.hints import Hints
from threadkeep.gateway.known import Known
from threadkeep.gateway.rules import Rules
from threadkeep.memory.memory import Memories, Shown


class Recollections:
    """What is remembered, for conversations of one tenant."""

    def __init__(self, memories: Memories, rules: Rules) -> None:
        self._memories = memories
        self._rules = rules

    async def for_conversation(self, known: Known | None, hints: Hints) -> Shown:
        """Return what a conversation's model is shown; None is a conversation that begins."""
        if not self._rules.shows_memory(client=hints.client):
            return Shown()
        if known is None:
            return await self._memories.shown()
        pin = known.told.memory if known.told is not None else ""
        if not pin:
            return Shown()
        return await self._memories.shown_again(pin) or await self._memories.shown()

    async def cited(self, reply: Reply, *, dialect: Dialect) -> None:
        """Count the memories that an answer cites."""
        if self._rules.memory != "off":
            await self._memories.cite_in("\n".join(dialect.view(item).text for item in reply.items))
