"""threadkeep as a compactor of the compaction-conformance-kit, through the public library alone.

The kit hands over a transcript, then its own compactor's output again, round after round, as repeated `/compact` does. The first
round records the transcript as a thread, roles as they are. A round that brings back what the last one returned brings nothing
new: the same thread is compacted again, as it would be in a session that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from anyio.from_thread import BlockingPortal, start_blocking_portal

from threadkeep import Config, Thread, Threadkeep, Window
from threadkeep.compaction import Ledger, Speaker
from threadkeep.errors import NothingToCompact
from threadkeep.tokens import estimate_bytes

NAME = "threadkeep"


class Turn(Protocol):
    """One turn of the kit's transcript."""

    @property
    def role(self) -> str: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What the kit reads of a round."""

    text: str
    compactor_name: str
    round_num: int
    structured: None = None


class ThreadkeepCompactor:
    """One session of the kit as one thread; the kit's budget is the compaction's target.

    The window is returned as it is, also where it is over budget: the kit then counts it as not compliant.
    """

    name = NAME

    def __init__(self, portal: BlockingPortal, tk: Threadkeep) -> None:
        self._portal = portal
        self._tk = tk
        self._thread: Thread | None = None
        self._returned: str | None = None

    def compact(self, turns: Sequence[Turn], round_num: int = 1, budget_chars: int | None = None) -> Compacted:
        if [turn.text for turn in turns] != [self._returned]:
            self._thread = None
        self._returned = self._portal.call(self._round, turns, budget_chars)
        return Compacted(text=self._returned, compactor_name=self.name, round_num=round_num)

    def remembered(self) -> list[str]:
        """Return what the ledger holds of what people said, whether the window has room for it or not."""
        state = self._portal.call(self._thread.state) if self._thread is not None else Ledger()
        return [entry.text for entry in state.entries if entry.speaker is Speaker.USER]

    async def _round(self, turns: Sequence[Turn], budget_chars: int | None) -> str:
        if self._thread is None:
            self._thread = await self._tk.thread(dialect="chat")
            await self._thread.record([{"role": turn.role, "content": turn.text} for turn in turns])
        target = None if budget_chars is None else str(estimate_bytes(budget_chars))
        # A round without anything new has nothing to compact: the window is what it was.
        with suppress(NothingToCompact):
            await self._thread.compact(target=target)
        return transcript(await self._thread.window())


def transcript(window: Window) -> str:
    """Return a window as the kit writes, and measures, the transcript it stands for."""
    return "\n".join(f"[{message['role']}] {message['content']}" for message in window)


@contextmanager
def compactors() -> Iterator[Callable[[], ThreadkeepCompactor]]:
    """Yield what makes compactors; their threads share one store, which ends with the block."""
    memory = Threadkeep(Config(store="memory:"))
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(memory) as tk:
        yield lambda: ThreadkeepCompactor(portal, tk)
