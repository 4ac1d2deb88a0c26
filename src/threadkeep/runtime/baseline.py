"""Telling a thread's model about its world: the decision is `threadkeep.thread.baseline`'s, the records are made here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.reading import live_path, load_history, records_at
from threadkeep.runtime.recording import append_items, arrival
from threadkeep.store import NewRecord, RecordKind, ThreadStore
from threadkeep.thread import Arrival, EntryKind, History, Pointer, Tip, decode_body, encode_body, lay_down
from threadkeep.thread.baseline import BaselineBody, World, standing, telling_of, words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What is to be recorded for a model to know its world: the record, and the item that says it."""

    body: BaselineBody
    item: Arrival

    @property
    def is_whole(self) -> bool:
        """Whether all of the world is told, rather than what changed."""
        return not self.body.base

    @property
    def size_bytes(self) -> int:
        """What it adds to every request from here on."""
        return len(self.item.item.raw)


async def told_world(store: ThreadStore, thread_id: str) -> World | None:
    """Return the world as a thread's window tells it; None where it does not, or no longer does."""
    path = await live_path(store, thread_id)
    return standing(await _tellings(store, await load_history(store, path)))


async def plan_telling(backend: Backend, thread_id: str, world: World, *, dialect: Dialect) -> Telling | None:
    """Return what a thread's model must be told to know `world`; None where its window says it already."""
    body = telling_of(world, known=await told_world(backend.store, thread_id))
    if body is None:
        return None
    return Telling(body=body, item=arrival(dialect, dialect.state_item(words_of(body)), redact=backend.redact))


async def append_told(
    backend: Backend,
    thread_id: str,
    telling: Telling | None,
    arrivals: Sequence[Arrival],
    *,
    tip: Tip,
    model: str | None = None,
    issuer: str | None = None,
) -> Tip:
    """Append a telling, if there is one, then `arrivals`, as one unit and return the tip after them. Durable when it returns.

    The telling's record stands right before its item, so a rollback takes back both; and whoever finds the item finds the record.

    Raises:
        OrdinalConflict: Another writer appended since `tip` was read.
    """
    if telling is None:
        return await append_items(backend, thread_id, arrivals, tip=tip, model=model, issuer=issuer)
    key, now = backend.store.tenant.key, backend.clock.now_ms()
    records, after = lay_down(tip, [telling.item, *arrivals], key=key, at_ms=now, model=model, issuer=issuer)
    place = next(at for at, record in enumerate(records) if record.kind is RecordKind.ITEM)
    body = encode_body(telling.body)
    record = NewRecord(kind=RecordKind.CONTEXT, at_ms=now, turn=records[place].turn, tokens=0, body=body)
    reached = await backend.append(thread_id, [*records[:place], record, *records[place:]], expected=tip.next)
    return replace(after, next=reached)


async def _tellings(store: ThreadStore, history: History) -> list[BaselineBody]:
    """Return the tellings whose item is in the window, oldest first."""
    shown = {entry.source for entry in history.entries if entry.kind is EntryKind.KEEP and entry.source is not None}
    before = (Pointer(source.thread_id, source.ordinal - 1) for source in shown)
    found: dict[int, BaselineBody] = {}
    for place, record in (await records_at(store, before, kinds={RecordKind.CONTEXT})).items():
        try:
            found[place.ordinal] = decode_body(record.body, BaselineBody)
        except msgspec.MsgspecError:
            # What a gateway noted beside a request; it tells nothing about a world.
            continue
    return [found[ordinal] for ordinal in sorted(found)]
