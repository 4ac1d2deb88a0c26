"""Where a client's history belongs: which thread holds the longest part of it, and what of it is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holdfast.dialects import Dialect, Request
from holdfast.items import body_digest, chain_seed
from holdfast.runtime.backend import Backend
from holdfast.runtime.branching import branch_off
from holdfast.runtime.reading import load_tip
from holdfast.runtime.recording import append_items, arrival, create_thread, deepest_known
from holdfast.store import NewRecord, RecordKind, Span
from holdfast.thread import ContextBody, Tip, encode_body

# What the model is told outside its history. Other fields (cache keys, client metadata) change with every request.
HEAD_FIELDS = ("model", "instructions", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The known part of a history: its thread, the ordinal its path ends before (None: the tip), and how many links it has."""

    thread_id: str
    stop: int | None
    depth: int


async def find_place(backend: Backend, chain: Sequence[bytes], *, dialect: Dialect, agent: str) -> Place | None:
    """Return where the longest known part of a history lies, preferring a thread that ends with it; None if all is new."""
    found = await deepest_known(backend.store, chain)
    if not found:
        return None
    seed = chain_seed(backend.store.tenant.key, dialect=dialect.name, agent=agent)
    for match in found:
        tip = await load_tip(backend.store, match.thread_id, seed=seed)
        if tip.chain == match.chain:
            return Place(thread_id=match.thread_id, stop=None, depth=match.depth)
    return Place(thread_id=found[0].thread_id, stop=found[0].ordinal + 1, depth=found[0].depth)


async def settle(
    backend: Backend,
    request: Request,
    chain: Sequence[bytes],
    *,
    dialect: Dialect,
    aside: Sequence[bool],
    agent: str,
) -> tuple[str, Tip]:
    """Record what is new in a request; return the thread that now ends where the request does, and its tip.

    A history that leaves a known path forks there. The head is recorded where it changed.

    Raises:
        OrdinalConflict: Another request of the same conversation was faster; look again.
    """
    place = await find_place(backend, chain, dialect=dialect, agent=agent)
    if place is None:
        thread_id = await create_thread(backend, dialect, agent=agent)
    elif place.stop is None:
        thread_id = place.thread_id
    else:
        thread_id = (await branch_off(backend, place.thread_id, at=place.stop)).thread
    known = place.depth if place else 0
    seed = chain_seed(backend.store.tenant.key, dialect=dialect.name, agent=agent)
    tip = await load_tip(backend.store, thread_id, seed=seed)
    before = await _changed_head(backend, thread_id, request, tip=tip)
    new = [
        arrival(dialect, item, aside=said, redact=backend.redact)
        for item, said in zip(request.items[known:], aside[known:], strict=True)
    ]
    if before or new:
        tip = await append_items(backend, thread_id, new, tip=tip, model=_model(request), before=before)
    return thread_id, tip


async def _changed_head(backend: Backend, thread_id: str, request: Request, *, tip: Tip) -> list[NewRecord]:
    """Return a record of the request's head where the thread's newest one says something else."""
    head = _head_body(request)
    own = Span(thread_id=thread_id, start=0, stop=tip.next)
    newest = await backend.store.read(own, kinds={RecordKind.CONTEXT}, newest_first=True, limit=1, bodies=False)
    if newest and newest[0].digest == body_digest(head):
        return []
    return [NewRecord(kind=RecordKind.CONTEXT, at_ms=backend.clock.now_ms(), turn=tip.turn, tokens=0, body=head)]


def _head_body(request: Request) -> bytes:
    fields = {name: msgspec.Raw(request.fields[name]) for name in HEAD_FIELDS if name in request.fields}
    return encode_body(ContextBody(fields=fields, head=[msgspec.Raw(item.raw) for item in request.head]))


def _model(request: Request) -> str | None:
    try:
        return msgspec.json.decode(request.fields.get("model", b"null"), type=str | None)
    except msgspec.MsgspecError:
        return None
