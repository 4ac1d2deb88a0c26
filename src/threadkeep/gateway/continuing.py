"""When a client rewrites its own history: which thread it goes on from. The next compaction takes over what that one remembers.

A client that compacts, prunes or renders its history anew sends one that no chain knows. What tells the thread it continues is
a session state of ours that it kept, or the client's name for the conversation together with something of the conversation, or,
without a name, what model and tools had said word for word. A name alone never decides: clients use one for several things. A
thread that was last written under another name is not continued, whatever they share, unless a provider sealed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects import Dialect
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.known import Memory, newest_told
from threadkeep.items import Item, digest_body
from threadkeep.store import Record, RecordKind, Span, ThreadRow
from threadkeep.threads import ReplyBody, StateEntry
from threadkeep.threads.reader import live_path, load_checkpoint, readable

# How many of the threads written last are looked through; a client goes on from what it did a moment ago.
THREADS = 16
# How many of a thread's newest items are compared; what a client keeps word for word is recent.
ITEMS = 256
# How many of them are read, where spelling must not matter.
LAST_SAID = 24
# Shorter answers than this are said in any conversation.
TELLING_BYTES = 200
# Without a name, one item alone tells nothing: call ids are numbered anew by some servers, and many say the same short words.
SHARED_WITHOUT_NAME = 2


async def continued_thread(
    backend: Backend, memory: Memory, seen: Seen, *, depth: int, session: str, dialect: Dialect
) -> str | None:
    """Return the thread whose history was rewritten to make what follows the first `depth` items, if one was.

    A new beginning, an edit and a fork bring nothing that a model said, and continue nothing in this sense.
    """
    shown = _states_in(seen, depth, dialect)
    for row in await backend.store.threads(limit=THREADS) if shown else ():
        if row.dialect != dialect.name or await _is_anothers(backend, row, session):
            continue
        if not shown.isdisjoint(await _states_of(backend, row, dialect)):
            return row.id
    later = seen.glances[depth:]
    summarised = any(glance.is_summary for glance in later)
    if not summarised and not any(glance.by_model for glance in later):
        return None
    telling = {digest_body(_written(backend, raw)) for raw in _telling(seen, depth)}
    named = memory.of_session(session) if session else None
    if named is not None and (summarised or telling & await _newest(backend, await backend.store.get(named))):
        return named
    # Beside a summary, which says that there was more, what people and models said tells it too, however short.
    spoken = _spoken(backend, seen, depth, dialect) if summarised and not session else set()
    compacted = _compacted(backend, seen, depth, dialect)
    best: tuple[int, str | None] = SHARED_WITHOUT_NAME - 1, None
    for row in await backend.store.threads(limit=THREADS):
        if row.dialect != dialect.name or row.id == named:
            continue
        shared = len(telling & await _newest(backend, row)) if telling else 0
        said = await _last_said(backend, row, dialect) if spoken or compacted else set()
        if compacted & said:
            return row.id
        if await _is_anothers(backend, row, session):
            continue
        shared = max(shared, len(spoken & said))
        if shared > best[0]:
            best = shared, row.id
        elif session and (summarised or shared) and await _is_called(backend, row, session):
            return row.id
    return best[1]


def _states_in(seen: Seen, depth: int, dialect: Dialect) -> set[str]:
    """Return the session states among what a client sends: one that had its history compacted upstream keeps what came back."""
    tag = TAG.encode()
    marked = (item for item in islice(seen.items, depth, None) if tag in item.raw)
    return {block for item in marked if (block := _block(dialect.view(item).text)) is not None}


async def _states_of(backend: Backend, row: ThreadRow, dialect: Dialect) -> set[str]:
    """Return the session state that a thread stands on, if it was compacted."""
    path = await live_path(backend.store, row.id)
    if path.checkpoint is None:
        return set()
    layout = (await load_checkpoint(backend.store, path.checkpoint)).layout
    states = (dialect.view(Item(bytes(entry.item))).text for entry in layout if isinstance(entry, StateEntry))
    return {block for text in states if (block := _block(text)) is not None}


def _block(text: str) -> str | None:
    """Return the state in a text, whatever stands around it: neighbours of one role may have been joined."""
    begins, ends = text.find(f"<{TAG}>\n"), text.rfind(f"\n</{TAG}>")
    return text[begins:ends] if 0 <= begins < ends else None


def _telling(seen: Seen, depth: int) -> Iterator[bytes]:
    """Yield what no two conversations have in common: outputs, sealed items, and what a model said at length."""
    for item, glance in zip(seen.items[depth:], seen.glances[depth:], strict=True):
        if glance.by_model and (glance.is_output or glance.is_sealed or len(item.raw) >= TELLING_BYTES):
            yield item.raw


def _spoken(backend: Backend, seen: Seen, depth: int, dialect: Dialect) -> set[bytes]:
    """Return digests of all that people and models said to each other, however it is spelled."""
    said = zip(seen.items[depth:], seen.glances[depth:], seen.aside[depth:], strict=True)
    items = (item for item, glance, aside in said if (glance.by_model or glance.by_person) and not aside)
    return {digest_body(dialect.canonical(Item(_written(backend, item.raw)))) for item in items}


def _compacted(backend: Backend, seen: Seen, depth: int, dialect: Dialect) -> set[bytes]:
    """Return digests of what a provider compacted by itself: no two conversations were ever given the same."""
    sent = zip(seen.items[depth:], seen.glances[depth:], strict=True)
    items = (item for item, glance in sent if glance.is_summary and glance.is_sealed)
    return {digest_body(dialect.canonical(Item(_written(backend, item.raw)))) for item in items}


async def _last_said(backend: Backend, row: ThreadRow, dialect: Dialect) -> set[bytes]:
    """Return the same of the last items of a thread, the answer that its client never sent back among them."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    kinds = {RecordKind.ITEM, RecordKind.REPLY}
    last = await backend.store.read(own, kinds=kinds, newest_first=True, limit=LAST_SAID)
    return {digest_body(dialect.canonical(item)) for record in last for item in _items_in(record)}


def _items_in(record: Record) -> list[Item]:
    if record.kind is RecordKind.ITEM:
        return [] if record.erased else [Item(record.body)]
    reply = readable(record, ReplyBody)
    return [Item(bytes(raw)) for raw in reply.items] if reply else []


def _written(backend: Backend, raw: bytes) -> bytes:
    """Return what is kept of an item."""
    return backend.redact(raw) if backend.redact else raw


async def _newest(backend: Backend, row: ThreadRow) -> set[bytes]:
    """Return the digests of a thread's newest items."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    newest = await backend.store.read(own, kinds={RecordKind.ITEM}, newest_first=True, limit=ITEMS, bodies=False)
    return {record.digest for record in newest}


async def _is_anothers(backend: Backend, row: ThreadRow, session: str) -> bool:
    """Whether a thread was last written under another name than `session`: what they share they share by chance."""
    told = await newest_told(backend.store, row.id, stop=row.next) if session else None
    return told is not None and told.session not in ("", session)


async def _is_called(backend: Backend, row: ThreadRow, session: str) -> bool:
    told = await newest_told(backend.store, row.id, stop=row.next)
    return told is not None and told.session == session
