"""What the tools read and write: one tenant's threads, and the one that is meant where a call names none."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import BadInput
from threadkeep.mcp.quoting import one_line

NAMED = 5
TITLE_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One tenant's open store, as a call finds it.

    Attributes:
        thread: Whose thread is meant where a call names none.
        trusts_client: Whether a call stands for a person's word, because the client asks one before each.
    """

    tk: Threadkeep
    thread: str | None = None
    trusts_client: bool = False

    async def find(self, named: str | None) -> Thread:
        """Return the thread a call means.

        Raises:
            BadInput: It names none, and there is no default.
            ThreadNotFound, AmbiguousThread: There is no such thread, or several.
        """
        wanted = named or self.thread
        if wanted is not None:
            return await self.tk.find(wanted)
        newest = await self.tk.threads(limit=NAMED)
        if not newest:
            raise BadInput("this store has no threads yet; they come with the first request through the gateway, or an import")
        there = "; ".join(f"{each.id} ({one_line(each.title or 'no title', limit=TITLE_CHARS)})" for each in newest)
        raise BadInput(f"say which thread is meant, with `thread`; the newest are {there}; the tool `threads` lists them all")
