"""Tells conversations apart that begin alike, and recognises one whose client rewrote its history.

A client that compacts, prunes or renders its history anew sends one that no chain knows. Its thread is recognised by a session
state of ours that the client kept; or by the client's name for the conversation together with some of its content; or, without a
name, by what model and tools said word for word. A name alone never decides: clients use one for several things. A thread last
written under another name is not gone on with, unless a provider sealed what they share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import islice

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects import Dialect
from threadkeep.errors import InvalidThreadId, ThreadNotFound
from threadkeep.gateway.conversation.hints import Hints
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.gateway.conversation.thread_cache import KnownThread, load_context
from threadkeep.items import Item, digest_body, digest_session
from threadkeep.store import Found, Record, RecordKind, Span, ThreadRow
from threadkeep.threads import ReplyBody, StateEntry, check_thread_id
from threadkeep.threads.reader import load_checkpoint, load_live_path, read_body

# How many of the threads written last are compared, and how many records that begin alike.
THREADS = 16
ALIKE = 64
# Shorter answers than this are given in any conversation.
TELLING_BYTES = 200
# Where every answer is short, so many questions must have been asked and answered alike.
EXCHANGES = 2
HOPS = 64


class Sessions:
    """Tells conversations of one tenant apart by the names that clients give them.

    Many conversations begin alike: with a host's description of its world, a greeting, a client's own compaction. A request never
    goes on from a thread of another name unless their shared part holds what only that conversation can have said.
    """

    def __init__(self, backend: Backend, dialect: Dialect) -> None:
        self._backend = backend
        self._dialect = dialect

    async def filter_found(self, found: list[Found], history: History, *, hints: Hints, head: bytes) -> list[Found]:
        """Return the records that a request under its client's name may go on from; none where it begins a thread.

        `found` are the deepest records of its history. Those under its own name come first; then those of the conversation
        that its client says it forked; then those under none; then shallower ones under its own name, which say that it only
        began like another; then, as a fork, those under another name.
        """
        if not found:
            return found
        session = hints.session
        contexts = [await load_context(self._backend.store, match.thread_id, stop=match.ordinal + 1) for match in found[:ALIKE]]
        named = [(match, context.session if context is not None else "") for match, context in zip(found, contexts, strict=False)]
        if session and (mine := [match for match, name in named if name == session]):
            return mine
        if hints.forked_from and (forked := [match for match, name in named if name == hints.forked_from]):
            return forked
        depth = found[0].depth
        is_own = is_own_conversation(history, depth)
        unnamed = [match for match, name in named if not name]
        if unnamed and (is_own or says_enough(history, depth)):
            return unnamed
        same_head = [
            match for match, context in zip(found, contexts, strict=False) if context is not None and context.head == head
        ]
        if echoing := [match for match in unnamed if match in same_head and await self._is_echoed(match, history)]:
            return echoing
        if not session:
            return found if is_own else []
        own = await self._find_deepest_own(session, history.chain[: depth - 1])
        if own or not is_own:
            return own
        if any(info.is_summary for info in history.infos[:depth]) and await self._has_another(hints, found):
            return []
        return found

    async def _is_echoed(self, match: Found, history: History) -> bool:
        """Whether a history goes on from the end of a thread, with what was answered there."""
        store = self._backend.store
        row = await store.get(match.thread_id)
        since = Span(thread_id=row.id, start=match.ordinal + 1, stop=row.next)
        if await store.read(since, kinds={RecordKind.ITEM}, limit=1, bodies=False):
            return False
        if match.depth == len(history.items) or history.infos[match.depth].is_own:
            return True
        said = {item.raw for record in await store.read(since, kinds={RecordKind.REPLY}) for item in _read_items(record)}
        canonical = self._dialect.canonical
        return canonical(history.items[match.depth]) in {canonical(Item(raw)) for raw in said}

    async def _find_deepest_own(self, session: str, chain: Sequence[bytes]) -> list[Found]:
        """Return the deepest records of a history that were written under this name."""
        best = await self._find_own(session, chain[0]) if chain else []
        low, high = 0, len(chain)
        while best and high - low > 1:
            middle = (low + high) // 2
            if own := await self._find_own(session, chain[middle]):
                low, best = middle, own
            else:
                high = middle
        return best

    async def _find_own(self, session: str, link: bytes) -> list[Found]:
        alike = (await self._backend.store.lookup([link]))[:ALIKE]
        return [match for match in alike if await self._load_name(match) == session]

    async def _has_another(self, hints: Hints, found: Sequence[Found]) -> bool:
        """Whether a name has a thread of its own that did not come from any of these."""
        own = await find_named_thread(self._backend, hints, self._dialect)
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

    async def _load_name(self, match: Found) -> str:
        """Return the name under which a record was written; empty where its client gave none."""
        context = await load_context(self._backend.store, match.thread_id, stop=match.ordinal + 1)
        return context.session if context is not None else ""


async def find_named_thread(backend: Backend, hints: Hints, dialect: Dialect) -> str | None:
    """Return the thread last written under a client's name for it; else the one imported from the client's file of that name."""
    store = backend.store
    if not hints.session:
        return None
    for match in (await store.lookup([digest_session(store.tenant.key, hints.session_name, agent=hints.agent)]))[:ALIKE]:
        row = await store.get(match.thread_id)
        context = await load_context(store, row.id, stop=row.next)
        if row.dialect == dialect.name and context is not None and context.session == hints.session:
            return row.id
    if hints.agent:
        return None
    try:
        row = await store.get(check_thread_id(hints.session_name))
    except (InvalidThreadId, ThreadNotFound):
        return None
    is_imported = row.dialect == dialect.name and await load_context(store, row.id, stop=row.next) is None
    return row.id if is_imported else None


def is_certain(known: KnownThread, history: History, depth: int, *, session: str) -> bool:
    """Whether a history that holds all of a thread belongs to it; if not, the records are looked at more closely."""
    name = known.context.session if known.context is not None else ""
    if session and name:
        return session == name
    return is_own_conversation(history, depth) or (not name and says_enough(history, depth))


def says_enough(history: History, depth: int) -> bool:
    """Whether the first `depth` items are more than what a host says of its world, and hold no summary that others may share."""
    infos = history.infos[:depth]
    return any(info.by_person for info in infos) and not any(info.is_summary and not info.is_sealed for info in infos)


def is_own_conversation(history: History, depth: int) -> bool:
    """Whether the first `depth` items of a history are one conversation's own, so that who shares them forked it.

    A person's words must be among them with something behind that is not said twice by chance: a tool's output, what a provider
    sealed, a long answer, or several answers. A client's summary and what stands before it do not count.
    """
    summaries = [index for index, info in enumerate(history.infos[:depth]) if info.is_summary and not info.is_sealed]
    start = summaries[-1] + 1 if summaries else 0
    asked, exchanges = False, 0
    for index in range(start, depth):
        info = history.infos[index]
        if history.aside[index]:
            continue
        if info.by_person:
            asked = True
        elif info.by_model and (asked or exchanges):
            if info.is_output or info.is_sealed or len(history.items[index].raw) >= TELLING_BYTES:
                return True
            exchanges += asked
            asked = False
    return exchanges >= EXCHANGES


# How many of a thread's newest items are compared; what a client keeps word for word is recent.
ITEMS = 256
# How many of them are read, where spelling must not matter.
LAST_SAID = 24
# One item alone tells nothing: call ids are numbered anew by some servers, and many say the same short words.
SHARED = 2


async def find_rewritten_thread(
    backend: Backend, history: History, *, depth: int, hints: Hints, head: bytes, dialect: Dialect
) -> str | None:
    """Return the thread whose history was rewritten to make what follows the first `depth` items, if one was.

    A new beginning, an edit and a fork bring nothing that a model said, and are none. Without a name only a thread under the same
    instructions (`head`) is taken, and none where two are alike.
    """
    later, session = history.infos[depth:], hints.session
    has_summary = any(info.is_summary for info in later)
    shown = _find_states(history, depth, dialect)
    if not has_summary and not shown and not any(info.by_model for info in later):
        return None
    rows = [row for row in await backend.store.threads(limit=THREADS) if row.dialect == dialect.name]
    contexts = {row.id: await load_context(backend.store, row.id, stop=row.next) for row in rows}
    names = {name: context.session if context is not None else "" for name, context in contexts.items()}
    open_to_us = [row for row in rows if names[row.id] in ("", session)]
    for row in open_to_us if shown else ():
        if not shown.isdisjoint(await _load_state(backend, row, dialect)):
            return row.id
    telling = {digest_body(_redact(backend, raw)) for raw in _find_telling(history, depth)}
    spoken = _digest_spoken(backend, history, depth, dialect)
    named = await find_named_thread(backend, hints, dialect)
    if named is not None:
        row = await backend.store.get(named)
        common = len(spoken.keys() & await _load_last_said(backend, row, dialect))
        if has_summary or common >= SHARED or telling & await _load_newest(backend, row):
            return named
    compacted = _digest_compacted(backend, history, depth, dialect)
    for row in rows if compacted else ():
        if compacted & await _load_last_said(backend, row, dialect):
            return row.id
    # Beside a summary, which says that there was more, what people and models said tells it too, however short; without one,
    # if something telling is among it.
    shared: dict[str, int] = {}
    for row in open_to_us:
        context = contexts[row.id]
        if not session and (context is None or context.head != head):
            continue
        last_said = await _load_last_said(backend, row, dialect)
        if not has_summary and not _has_same_questions(spoken, last_said, depth=depth):
            continue
        shared[row.id] = len(telling & await _load_newest(backend, row)) if telling else 0
        alike = spoken.keys() & last_said if not session else set()
        if has_summary or any(spoken[each] is Said.AT_LENGTH for each in alike):
            shared[row.id] = max(shared[row.id], len(alike))
    best = max(shared.values(), default=0)
    likely = [row for row in open_to_us if shared.get(row.id) == best] if best >= SHARED else []
    # A fork shares its parent's history: of these the newest goes on.
    related = {likely[0].id, likely[0].parent} if likely else set()
    return likely[0].id if likely and all({row.id, row.parent} & related for row in likely) else None


def _find_states(history: History, depth: int, dialect: Dialect) -> set[str]:
    """Return the session states among what a client sends: one that had its history compacted upstream keeps what came back."""
    tag = TAG.encode()
    tagged = (item for item in islice(history.items, depth, None) if tag in item.raw)
    return {block for item in tagged if (block := _cut_state(dialect.view(item).text)) is not None}


async def _load_state(backend: Backend, row: ThreadRow, dialect: Dialect) -> set[str]:
    """Return the session state that a thread stands on, if it was compacted."""
    path = await load_live_path(backend.store, row.id)
    if path.checkpoint is None:
        return set()
    layout = (await load_checkpoint(backend.store, path.checkpoint)).layout
    states = (dialect.view(Item(bytes(entry.item))).text for entry in layout if isinstance(entry, StateEntry))
    return {block for text in states if (block := _cut_state(text)) is not None}


def _cut_state(text: str) -> str | None:
    """Return the state in a text, whatever stands around it: neighbours of one role may have been joined."""
    begins, ends = text.find(f"<{TAG}>\n"), text.rfind(f"\n</{TAG}>")
    return text[begins:ends] if 0 <= begins < ends else None


def _find_telling(history: History, depth: int) -> Iterator[bytes]:
    """Yield what no two conversations have in common: outputs, sealed items, and what a model said at length."""
    for item, info in zip(history.items[depth:], history.infos[depth:], strict=True):
        if info.by_model and (info.is_sealed or len(item.raw) >= TELLING_BYTES):
            yield item.raw


class Said(Enum):
    """Who said something; what a model said at length, hardly another one says again."""

    BY_PERSON = auto()
    IN_SHORT = auto()
    AT_LENGTH = auto()


def _digest_spoken(backend: Backend, history: History, depth: int, dialect: Dialect) -> dict[bytes, Said]:
    """Return digests of all that people and models said to each other, in order, however it is spelled."""
    spoken: dict[bytes, Said] = {}
    for item, info, aside in zip(history.items[depth:], history.infos[depth:], history.aside[depth:], strict=True):
        if (info.by_model or info.by_person) and not aside:
            by_model = Said.AT_LENGTH if len(item.raw) >= TELLING_BYTES else Said.IN_SHORT
            spoken.setdefault(
                _digest_words(Item(_redact(backend, item.raw)), dialect), by_model if info.by_model else Said.BY_PERSON
            )
    return spoken


def _has_same_questions(spoken: Mapping[bytes, Said], last_said: Collection[bytes], *, depth: int) -> bool:
    """Whether a thread has what people said since the first long answer it shares, the newest message apart.

    Else the history only began like it: another conversation about the same files. Behind a beginning that is known, `depth`
    items long, all that people said counts: what they said first is where two conversations part.
    """
    alike = (at for at, (each, said) in enumerate(spoken.items()) if said is Said.AT_LENGTH and each in last_said)
    shared = next(alike, None) if depth == 0 else 0
    if shared is None:
        return True
    asked = [each for each in islice(spoken, shared, None) if spoken[each] is Said.BY_PERSON]
    return all(each in last_said for each in asked[:-1])


def _digest_words(item: Item, dialect: Dialect) -> bytes:
    """Return a digest of what an item says; of a person's message without what a host put beside it."""
    view = dialect.view(item)
    return digest_body(view.said.encode("utf-8", "replace") if view.by_person else dialect.canonical(item))


def _digest_compacted(backend: Backend, history: History, depth: int, dialect: Dialect) -> set[bytes]:
    """Return digests of what a provider compacted by itself: no two conversations were ever given the same."""
    sent = zip(history.items[depth:], history.infos[depth:], strict=True)
    items = (item for item, info in sent if info.is_summary and info.is_sealed)
    return {digest_body(dialect.canonical(Item(_redact(backend, item.raw)))) for item in items}


async def _load_last_said(backend: Backend, row: ThreadRow, dialect: Dialect) -> set[bytes]:
    """Return the same of the last items of a thread, the answer that its client never sent back among them."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    kinds = {RecordKind.ITEM, RecordKind.REPLY}
    last = await backend.store.read(own, kinds=kinds, newest_first=True, limit=LAST_SAID)
    return {_digest_words(item, dialect) for record in last for item in _read_items(record)}


def _read_items(record: Record) -> list[Item]:
    if record.kind is RecordKind.ITEM:
        return [] if record.erased else [Item(record.body)]
    reply = read_body(record, ReplyBody)
    return [Item(bytes(raw)) for raw in reply.items] if reply else []


def _redact(backend: Backend, raw: bytes) -> bytes:
    """Return what is kept of an item."""
    return backend.redact(raw) if backend.redact else raw


async def _load_newest(backend: Backend, row: ThreadRow) -> set[bytes]:
    """Return the digests of a thread's newest items."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    newest = await backend.store.read(own, kinds={RecordKind.ITEM}, newest_first=True, limit=ITEMS, bodies=False)
    return {record.digest for record in newest}
