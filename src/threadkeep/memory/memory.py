"""A tenant's memory in hand: made by passes over idle threads, shown to models under a cap, cited, edited and forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.memory import Cited, Kept, MemoryState, Snapshot, cited_in, edited, found, page, summary
from threadkeep.memory.memory_thread import MemoryThread
from threadkeep.memory.pipeline import MemoryPass, Work
from threadkeep.memory.settings import MemorySettings
from threadkeep.memory.state import rank
from threadkeep.store import RecordKind, Span
from threadkeep.threads.titles import describe, description

PIN_BYTES = 8
# Conversations that began at different times were shown different summaries; a gateway has many of them going on.
KEPT_TEXTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model is shown of the memory.

    Attributes:
        pin: Which memory this is, for `Memories.shown_again`; holds nothing of what it says. Empty where there is no memory.
        text: The summary; empty where nothing is remembered.
    """

    pin: str = ""
    text: str = ""


class Memories:
    """A tenant's memory. Apart from transcripts: nothing here changes a thread but the memory's own."""

    def __init__(self, backend: Backend, settings: MemorySettings | None = None) -> None:
        self._backend = backend
        self._settings = settings or MemorySettings()
        self._thread = MemoryThread(backend)
        self._work = Work(backend, self._settings, self._thread)
        self._texts: dict[int, Shown] = {}
        self._newest: tuple[int, Shown] = (0, Shown())

    async def run(self) -> MemoryPass:
        """Read what is due and consolidate. Any number of workers may do so at once; a thread is one worker's at a time.

        Raises:
            UnknownModel: The model that is to choose cannot be asked; nothing was done.
        """
        return await self._work.run()

    async def state(self) -> MemoryState:
        return await self._thread.load()

    async def page(self) -> str:
        """Return everything remembered as a page to read and edit."""
        return page((await self._thread.load()).memories)

    async def summary(self) -> str:
        """Return what a model is shown: the most useful memories, never more than the configured tokens.

        The same bytes until the memory is consolidated anew, edited or taken back; being cited does not change them.
        """
        return (await self.shown()).text

    async def shown(self) -> Shown:
        """Return the summary, and a pin under which the very same one can be had later."""
        length = await self._thread.length()
        if self._newest[0] != length:
            newest = await self._thread.newest()
            self._newest = (length, self._kept(*newest) if newest else Shown())
        return self._newest[1]

    async def shown_again(self, pin: str) -> Shown | None:
        """Return the summary a pin stands for, byte for byte; None where the memory it came from was taken back since.

        That is so once a person edited or reset the memory, or something was erased or forgotten: nobody is shown it again.
        """
        place = pin.partition(":")[0]
        ordinal = int(place) if place.isdecimal() else -1
        if ordinal < 0 or not await self._thread.is_there(ordinal):
            return None
        known = self._texts.get(ordinal)
        if known is None:
            snapshot = await self._thread.at(ordinal)
            known = self._kept(ordinal, snapshot) if snapshot else None
        return known if known is not None and known.pin == pin else None

    async def shown_to(self, thread_id: str) -> Shown:
        """Return what a thread's model is shown: always what it was shown with its first request, so that its prefix stays.

        A thread that began without memory goes on without; one whose memory was taken back is shown the newest from then on.
        What is decided for a thread that is still empty is recorded in it, without a word of what it says.

        Raises:
            ThreadNotFound: There is no such thread.
            OrdinalConflict: Another writer appended meanwhile.
        """
        pin = await self._pin(thread_id)
        if pin is None:
            return Shown()
        again = await self.shown_again(pin) if pin else None
        if again is not None:
            return again
        shown = await self.shown()
        await describe(self._backend, thread_id, memory=shown.pin)
        return shown

    async def _pin(self, thread_id: str) -> str | None:
        """Return a thread's pin, or its parent's; empty where nothing was said in it yet, None where it goes without."""
        row = await self._backend.store.get(thread_id)
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        if row.parent is None and not await self._backend.store.read(own, kinds={RecordKind.ITEM}, limit=1, bodies=False):
            return (await description(self._backend.store, row.id)).memory
        while not (pin := (await description(self._backend.store, row.id)).memory):
            if row.parent is None:
                return None
            row = await self._backend.store.get(row.parent)
        return pin

    async def search(self, query: str, *, limit: int = 10) -> list[Kept]:
        """Return the memories that share most words with `query`, the most useful first; those the summary leaves out too."""
        return found((await self._thread.load()).memories, query, limit=limit)

    async def read(self, memory_id: str) -> Kept | None:
        """Return the memory of that name, as a model cites it; None where there is none."""
        return (await self._thread.load()).find(memory_id)

    async def cite(self, ids: Sequence[str]) -> list[str]:
        """Count memories as used and return their names; those that are not there are passed over. Durable when it returns."""
        known = await self._thread.load() if ids else MemoryState()
        used = [name for name in dict.fromkeys(ids) if known.find(name) is not None]
        if used:
            await self._thread.add(Cited(ids=used, at_ms=self._backend.clock.now_ms()))
        return used

    async def cite_in(self, answer: str) -> list[str]:
        """Count the memories a model's answer cites as `[memory:NAME]`, each once, and return their names."""
        return await self.cite(cited_in(answer))

    async def edit(self, text: str) -> MemoryState:
        """Take over a page that a person changed. What was taken out of it can no longer be read anywhere in the memory.

        Raises:
            BadInput: The page cannot be read as one; nothing was changed.
        """
        now = self._backend.clock.now_ms()
        return await self._thread.rewrite(lambda state: edited(self._work.snapshot(state), text, now_ms=now))

    async def forget(self, thread_ids: Sequence[str]) -> MemoryState:
        """Drop what these threads alone said, and read them no more: they were erased, or hold what nobody should rely on."""
        return await self._thread.rewrite(lambda state: self._work.snapshot(state, forget=list(thread_ids)))

    async def pollute(self, thread_ids: Sequence[str]) -> MemoryState:
        """Mark threads as polluted: they read untrusted material, so what they said is dropped and they are read no more."""
        return await self._thread.rewrite(lambda state: self._work.snapshot(state, polluted=list(thread_ids)))

    async def read_again(self, thread_ids: Sequence[str]) -> MemoryState:
        """Drop what these threads said, and let the next pass read them anew: something was taken out of them."""

        def made(state: MemoryState) -> Snapshot:
            dropped = self._work.snapshot(state, forget=list(thread_ids))
            unread = {name: at for name, at in dropped.watermarks.items() if name not in thread_ids}
            return msgspec.structs.replace(dropped, watermarks=unread, forgotten=state.snapshot.forgotten)

        return await self._thread.rewrite(made)

    async def reset(self) -> MemoryState:
        """Forget everything, how far threads were read too: the next pass begins anew."""
        now = self._backend.clock.now_ms()
        return await self._thread.rewrite(lambda _: Snapshot(at_ms=now, memories=[], watermarks={}))

    def _kept(self, ordinal: int, snapshot: Snapshot) -> Shown:
        ranked = sorted(snapshot.memories, key=rank, reverse=True)
        text = summary(ranked, tokens=self._settings.summary_tokens)
        shown = Shown(pin=f"{ordinal}:{blake2b(text.encode(), digest_size=PIN_BYTES).hexdigest()}", text=text)
        self._texts[ordinal] = shown
        while len(self._texts) > KEPT_TEXTS:
            del self._texts[next(iter(self._texts))]
        return shown
