"""A thread to be read: its window and where that comes from, its originals, its records. Nothing here writes."""

from __future__ import annotations

from typing import Any

from threadkeep.compaction.inline import holds_compaction
from threadkeep.errors import InvalidPointer, RecordNotFound
from threadkeep.items import decoded
from threadkeep.llm.base import Model
from threadkeep.recall import Recalled, recall_by_pointer, recall_by_words
from threadkeep.runtime.baseline import told_world
from threadkeep.runtime.describing import description
from threadkeep.runtime.head import Head
from threadkeep.runtime.measuring import model_before, pressure_of
from threadkeep.runtime.reading import live_path, load_history
from threadkeep.runtime.reports import Window
from threadkeep.runtime.sealing import Reader, legible_to
from threadkeep.runtime.stating import StatefulThread
from threadkeep.store import Record, RecordKind, Span
from threadkeep.thread import History, parse_pointer
from threadkeep.thread.baseline import World
from threadkeep.thread.closing import closed


class LegibleThread(StatefulThread):
    """What anybody who may read a thread can be told of it, as it is at the moment they ask."""

    @property
    def cache_key(self) -> str:
        """A prompt-cache key that is the same before and after every compaction and restart, and a fork's own."""
        return f"threadkeep-{self.id}"

    async def history(self, *, model: str | None = None, issuer: str | None = None) -> History:
        """Return the window with where each item comes from; what is sealed for another than `model` is left out."""
        history = await load_history(self._backend.store, await live_path(self._backend.store, self.id))
        return await self._legible(history, Reader(model=model, issuer=issuer))

    async def _legible(self, history: History, reader: Reader) -> History:
        return await legible_to(reader, history, store=self._backend.store, thread_id=self.id, dialect=self.dialect)

    async def window(
        self,
        *,
        head: Head | None = None,
        model: str | Model | None = None,
        issuer: str | None = None,
        trouble: str | None = None,
        to_send: bool = False,
    ) -> Window:
        """Return what to send next. Pure: it never compacts.

        Calls that were left behind without an output are shown as aborted; in the records they stay open.

        Args:
            head: What goes out beside it, and counts.
            model: Who is sent it, by name or itself: its pressure is measured against that one's limits. A model that says it
                takes less than is configured is believed.
            issuer: The account it goes to, where it is known. What a provider sealed for another is left out.
            trouble: What went wrong on the way to it, for its `trouble`.
            to_send: It goes out now, so calls that are still under way at its end are shown as aborted too.
        """
        path = await live_path(self._backend.store, self.id)
        name = model if model is None or isinstance(model, str) else model.name
        history = await self._legible(await load_history(self._backend.store, path), Reader(model=name, issuer=issuer))
        pressure = await pressure_of(self._backend, path, history, head_tokens=head.tokens if head else 0, model=model)
        return Window(
            self._provider_json(history, to_send=to_send),
            tokens=history.tokens,
            cache_key=self.cache_key,
            checkpoint=history.checkpoint_ordinal,
            pressure=pressure,
            trouble=trouble,
            holds_compaction=holds_compaction(history),
        )

    async def last_model(self) -> str | None:
        """Return the model of the newest turn that names one."""
        store = self._backend.store
        found = await model_before(self._backend, await live_path(store, self.id))
        # Behind a checkpoint's cut there may be no turn yet; who was asked before it is still who was asked last.
        return found or await model_before(self._backend, await live_path(store, self.id, whole=True))

    def _provider_json(self, history: History, *, to_send: bool) -> list[dict[str, Any]]:
        """Return the window's items as values; what damage left unreadable costs only itself, and `verify` names it."""
        items: list[dict[str, Any]] = []
        for item in self.dialect.arrange(closed(history.items, dialect=self.dialect, under_way=not to_send)):
            try:
                items.append(decoded(item.raw))
            except ValueError:
                continue
        return items

    async def told(self) -> World | None:
        """Return the world as the window tells it; None where it does not, or no longer does."""
        return await told_world(self._backend.store, self.id)

    async def is_archived(self) -> bool:
        """Whether the thread was taken out of the usual list."""
        return (await description(self._backend.store, self.id)).archived

    async def recall(self, query: str, *, limit: int = 5) -> list[Recalled]:
        """Return originals: the record that `query` points at (`#12`, `THREAD#12`), else those that match its words."""
        path = await live_path(self._backend.store, self.id, whole=True)
        try:
            pointer = parse_pointer(query, within=self.id)
        except InvalidPointer:
            store = self._backend.store
            return await recall_by_words(store, store, path, query, dialect=self.dialect, limit=limit)
        return [await recall_by_pointer(self._backend.store, path, pointer, dialect=self.dialect)]

    async def original(self, pointer: str) -> dict[str, Any]:
        """Return the item a pointer names, whole, as provider JSON: an image too can be shown to the model again.

        Raises:
            InvalidPointer: It is not a pointer.
            RecordNotFound: There is no such item.
        """
        place = parse_pointer(pointer, within=self.id)
        path = await live_path(self._backend.store, self.id, whole=True)
        thread_id = path.holds(place.ordinal) or place.thread_id
        span = Span(thread_id=thread_id, start=place.ordinal, stop=place.ordinal + 1)
        for record in await self._backend.store.read(span, kinds={RecordKind.ITEM, RecordKind.NOTE}):
            if not record.erased:
                item: dict[str, Any] = decoded(record.body)
                return item
        raise RecordNotFound(thread_id, place.ordinal)

    async def records(self) -> list[Record]:
        """Return every record of this thread, on its live path or not, oldest first."""
        row = await self._backend.store.get(self.id)
        return await self._backend.store.read(Span(thread_id=self.id, start=row.start, stop=row.next))
