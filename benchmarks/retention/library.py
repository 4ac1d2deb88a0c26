"""threadkeep's own arms: threads recorded and compacted as any host would do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.retention.arms import LIBRARY, SESSION
from benchmarks.retention.summarisers import SUMMARISERS, Note, SummarisingModel
from benchmarks.retention.windows import Piece, make_piece
from benchmarks.retention.wire_items import Json
from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import NothingToCompact


@dataclass(slots=True, kw_only=True)
class LibraryArm:
    """A thread, and the model its compactions ask; without one they are extractive."""

    name: str
    thread: Thread
    model: SummarisingModel | None
    refused: int = 0

    async def record(self, items: Sequence[Json]) -> None:
        await self.thread.record(items)

    async def compact(self, key: Sequence[Note]) -> None:
        """Compact now; where it is not worth it, the window stays as it is and that is counted."""
        if self.model is not None:
            self.model.key = key
        strategy = self.name if self.model is None else SESSION
        try:
            await self.thread.compact(strategy=strategy, model=self.model)
        except NothingToCompact:
            self.refused += 1

    async def window(self) -> list[Piece]:
        """Return the thread's window as it would be sent."""
        dialect = self.thread.dialect
        return [make_piece(item, dialect=dialect) for item in (await self.thread.history()).items]


async def list_library_arms(tk: Threadkeep, *, beside: Threadkeep, dialect: str, seed: int) -> list[LibraryArm]:
    """Return the library's arms, each with a new thread; `extractive` comes first, the only one in `tk`.

    The others share a store of their own that is never searched, so its index costs nothing.
    """
    return [
        LibraryArm(
            name=name,
            thread=await (beside if summariser else tk).thread(
                f"retention-{dialect}-{seed}-{summariser or name}", dialect=dialect
            ),
            model=None
            if summariser is None
            else SummarisingModel(summariser, SUMMARISERS[summariser], dialect=dialect, seed=f"{seed}:{name}"),
        )
        for name, summariser in LIBRARY.items()
    ]
