"""Whose thread a request may go on from, where clients name their conversations.

Content finds a thread, and a fork under a new name shares real history with it. But many conversations begin alike: with the
host's description of its world, with a greeting, with a client's own compaction. A request never goes on from a thread that was
written under another name unless the part they share holds what only that conversation can have said.
"""

from __future__ import annotations

from collections.abc import Sequence

from threadkeep.compaction.backend import Backend
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.known import Memory, newest_told
from threadkeep.store import Found

# How many of the threads written last are asked for their name, and how many records that begin alike.
THREADS = 16
ALIKE = 64
# Shorter answers than this are given in any conversation.
TELLING_BYTES = 200
# Where every answer is short, so many questions must have been asked and answered alike.
EXCHANGES = 2
HOPS = 64


class Sessions:
    """Tells conversations of one tenant apart by the names their clients gave them."""

    def __init__(self, backend: Backend, memory: Memory) -> None:
        self._backend = backend
        self._memory = memory

    async def open_to(self, session: str, found: list[Found], seen: Seen) -> list[Found]:
        """Return the records that a request under the name `session` may go on from; none where it begins a thread.

        `found` are the deepest records of its history. Those under its own name or none come first; then shallower ones under
        its own name, which say that it only began like another; then, as a fork, those under another name.
        """
        if not session or not found:
            return found
        names = [await self._name_at(match) for match in found[:ALIKE]]
        open_to_all = [match for match, name in zip(found, names, strict=False) if name in ("", session)]
        if open_to_all:
            return open_to_all
        depth = found[0].depth
        own = await self._deepest_own(session, seen.chain[: depth - 1])
        if own or not says_enough(seen, depth):
            return own
        if any(glance.is_summary for glance in seen.glances[:depth]) and await self._has_another(session, found):
            return []
        return found

    async def _deepest_own(self, session: str, chain: Sequence[bytes]) -> list[Found]:
        """Return the deepest records of a history that were written under this name."""
        best = await self._own_at(session, chain[0]) if chain else []
        low, high = 0, len(chain)
        while best and high - low > 1:
            middle = (low + high) // 2
            if own := await self._own_at(session, chain[middle]):
                low, best = middle, own
            else:
                high = middle
        return best

    async def _own_at(self, session: str, link: bytes) -> list[Found]:
        alike = (await self._backend.store.lookup([link]))[:ALIKE]
        return [match for match in alike if await self._name_at(match) == session]

    async def _has_another(self, session: str, found: Sequence[Found]) -> bool:
        """Whether a name has a thread of its own that did not come from any of these."""
        own = self._memory.of_session(session) or await self._written_lately(session)
        if own is None:
            return False
        others = {match.thread_id for match in found}
        name: str | None = own
        for _ in range(HOPS):
            if name is None:
                return True
            if name in others:
                return False
            name = (await self._backend.store.get(name)).parent
        return True

    async def _written_lately(self, session: str) -> str | None:
        for row in await self._backend.store.threads(limit=THREADS):
            told = await newest_told(self._backend.store, row.id, stop=row.next)
            if told is not None and told.session == session:
                return row.id
        return None

    async def _name_at(self, match: Found) -> str:
        """Return the name under which a record was written; empty where its client gave none."""
        told = await newest_told(self._backend.store, match.thread_id, stop=match.ordinal + 1)
        return told.session if told is not None else ""


def says_enough(seen: Seen, depth: int) -> bool:
    """Whether the first `depth` items of a history are one conversation's own, so that who shares them forked it.

    A person's words must be among them with something behind that is not said twice by chance: a tool's output, what a provider
    sealed, a long answer, or several answers. A client's summary and what stands before it do not count.
    """
    summaries = [index for index, glance in enumerate(seen.glances[:depth]) if glance.is_summary]
    start = summaries[-1] + 1 if summaries else 0
    asked, exchanges = False, 0
    for index in range(start, depth):
        glance = seen.glances[index]
        if seen.aside[index]:
            continue
        if glance.by_person:
            asked = True
        elif glance.by_model and (asked or exchanges):
            if glance.is_output or glance.is_sealed or len(seen.items[index].raw) >= TELLING_BYTES:
                return True
            exchanges += asked
            asked = False
    return exchanges >= EXCHANGES
