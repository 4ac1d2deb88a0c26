"""A store that lives as long as the process: for tests, and for sessions nobody wants to keep."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from math import log

from threadkeep.errors import OrdinalConflict, StoreClosed, ThreadExists, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store.base import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow, Watch
from threadkeep.store.search_words import space_cjk, split_phrases
from threadkeep.store.watchers import Watchers

_KEY_BYTES = 32
_TOKEN = re.compile(r"[^\W_]+")
# Okapi BM25 with its customary constants, as FTS5 has them: how soon a repeated word stops counting, how much length does.
_K1, _B = 1.2, 0.75


@dataclass(slots=True)
class _Body:
    """Bytes that several records may share; none are left once they were erased."""

    data: bytes
    digest: bytes
    erased_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """A record as it was appended, its bytes apart; `number` counts over all threads of the tenant."""

    number: int
    new: NewRecord
    body: _Body


@dataclass(frozen=True, slots=True)
class _Thread:
    made: NewThread
    number: int
    rows: list[_Row] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.made.start + len(self.rows)

    def row(self) -> ThreadRow:
        made = self.made
        updated = self.rows[-1].new.at_ms if self.rows else made.created_at_ms
        return ThreadRow(
            id=made.id,
            dialect=made.dialect,
            created_at_ms=made.created_at_ms,
            updated_at_ms=updated,
            start=made.start,
            parent=made.parent,
            next=self.end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    holder: str
    ttl_ms: int
    expires_at_ms: int


@dataclass(slots=True)
class _Shelf:
    """What one tenant has."""

    tenant: Tenant
    threads: dict[str, _Thread] = field(default_factory=dict)
    bodies: dict[bytes, _Body] = field(default_factory=dict)
    chains: defaultdict[bytes, list[tuple[int, Found]]] = field(default_factory=lambda: defaultdict(list))
    leases: dict[str, _Lease] = field(default_factory=dict)
    written: int = 0
    watchers: Watchers = field(default_factory=lambda: Watchers(is_told=True))


class MemoryDatabase:
    """The tenants of one process. Gone with it; belongs to one event loop."""

    def __init__(self, *, searchable: Callable[[str, bytes], str]) -> None:
        self._searchable = searchable
        self._shelves: dict[str, _Shelf] = {}

    async def open_tenant(self, name: str = "local", *, key: bytes | None = None) -> MemoryStore:
        """Return a store of the tenant called `name`; all of them share what it holds, each is closed on its own.

        `key` is the one it is made with if it is not there yet: that of the store its threads are copied from.
        """
        shelf = self._shelves.get(name)
        if shelf is None:
            shelf = self._shelves[name] = _Shelf(Tenant(name=name, key=key or secrets.token_bytes(_KEY_BYTES)))
        return MemoryStore(shelf, searchable=self._searchable)

    async def has_tenant(self, name: str) -> bool:
        """Whether there is a tenant called `name`; none is made."""
        return name in self._shelves

    async def close(self) -> None:
        """Let go of it. What it holds goes with the process."""


class MemoryStore:
    """`ThreadStore` and every optional port for one tenant; contracts are stated there. Made by `MemoryDatabase`.

    No method waits for anything, so each is one unit for every task of the loop.
    """

    def __init__(self, shelf: _Shelf, *, searchable: Callable[[str, bytes], str]) -> None:
        self._shelf = shelf
        self._searchable = searchable
        self._closed = False

    @property
    def tenant(self) -> Tenant:
        return self._shelf.tenant

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        threads = self._open().threads
        if thread.id in threads:
            raise ThreadExists(thread.id)
        if thread.parent is not None and thread.parent not in threads:
            raise ThreadNotFound(thread.parent)
        threads[thread.id] = made = _Thread(thread, number=len(threads))
        self._put(made, records)

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        thread = self._thread(thread_id)
        if thread.end != expected:
            raise OrdinalConflict(thread_id, expected=expected, actual=thread.end)
        self._put(thread, records)
        return thread.end

    async def get(self, thread_id: str) -> ThreadRow:
        return self._thread(thread_id).row()

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        named = [thread for name, thread in self._open().threads.items() if name.startswith(prefix)]
        named.sort(key=lambda thread: (thread.rows[-1].number if thread.rows else -1, thread.number), reverse=True)
        return [thread.row() for thread in named[:limit]]

    async def read(
        self,
        span: Span,
        *,
        kinds: Collection[RecordKind] | None = None,
        ordinals: Collection[int] | None = None,
        turn: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        bodies: bool = True,
    ) -> list[Record]:
        chosen = None if ordinals is None else set(ordinals)
        found = [
            _record(span.thread_id, ordinal, row, bodies=bodies)
            for ordinal, row in self._rows(span)
            if (kinds is None or row.new.kind in kinds)
            and (chosen is None or ordinal in chosen)
            and (turn is None or row.new.turn == turn)
        ]
        if newest_first:
            found.reverse()
        return found[:limit]

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        known = self._open().chains
        found = [match for chain in set(chains) for match in known.get(chain, ())]
        return [each for _, each in sorted(found, key=lambda match: match[0], reverse=True)]

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        wanted = [tuple(_tokens(phrase)) for phrase in split_phrases(query)]
        places: dict[int, tuple[str, int]] = {}
        texts: dict[int, list[str]] = {}
        for span in spans:
            for ordinal, row in self._rows(span):
                if row.new.kind is RecordKind.ITEM and row.body.erased_at_ms is None:
                    dialect = self._shelf.threads[span.thread_id].made.dialect
                    places[row.number] = (span.thread_id, ordinal)
                    texts[row.number] = _tokens(space_cjk(self._searchable(dialect, row.body.data)))
        best = sorted(((score, number) for number, score in _bm25(texts, wanted).items()), reverse=True)
        return [Hit(thread_id=places[at][0], ordinal=places[at][1], score=score) for score, at in best[:limit]]

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        leases = self._open().leases
        held = leases.get(key)
        if held is not None and held.holder != holder:
            if held.expires_at_ms - held.ttl_ms > now_ms:
                held = leases[key] = _Lease(holder=held.holder, ttl_ms=held.ttl_ms, expires_at_ms=now_ms + held.ttl_ms)
            if held.expires_at_ms > now_ms:
                return False
        leases[key] = _Lease(holder=holder, ttl_ms=ttl_ms, expires_at_ms=now_ms + ttl_ms)
        return True

    async def release(self, key: str, *, holder: str) -> None:
        leases = self._open().leases
        if key in leases and leases[key].holder == holder:
            del leases[key]

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        thread, chosen = self._thread(thread_id), set(ordinals)
        rows = (row for at, row in enumerate(thread.rows, start=thread.made.start) if at in chosen)
        gone = {id(row.body): row.body for row in rows if row.body.erased_at_ms is None}
        for body in gone.values():
            body.data, body.erased_at_ms = b"", at_ms
            del self._shelf.bodies[body.digest]
        return sum(id(row.body) in gone for each in self._shelf.threads.values() for row in each.rows)

    @asynccontextmanager
    async def watch(self, thread_id: str | None = None) -> AsyncIterator[Watch]:
        watchers = self._open().watchers
        if thread_id is not None:
            self._thread(thread_id)
        with watchers.added(thread_id) as watch:
            yield watch

    async def close(self) -> None:
        """Close this store; what it holds stays with its `MemoryDatabase`."""
        self._closed = True

    def _open(self) -> _Shelf:
        if self._closed:
            raise StoreClosed("in memory")
        return self._shelf

    def _thread(self, thread_id: str) -> _Thread:
        thread = self._open().threads.get(thread_id)
        if thread is None:
            raise ThreadNotFound(thread_id)
        return thread

    def _rows(self, span: Span) -> Iterator[tuple[int, _Row]]:
        thread = self._open().threads.get(span.thread_id)
        if thread is None:
            return
        start, stop = max(span.start, thread.made.start), min(span.stop, thread.end)
        for ordinal in range(start, stop):
            yield ordinal, thread.rows[ordinal - thread.made.start]

    def _put(self, thread: _Thread, records: Sequence[NewRecord]) -> None:
        shelf = self._shelf
        for new in records:
            digest = digest_body(new.body)
            body = shelf.bodies.setdefault(digest, _Body(new.body, digest))
            if new.chain is not None and new.depth is not None:
                found = Found(chain=new.chain, thread_id=thread.made.id, ordinal=thread.end, depth=new.depth)
                shelf.chains[new.chain].append((shelf.written, found))
            thread.rows.append(_Row(shelf.written, replace(new, body=b""), body))
            shelf.written += 1
        shelf.watchers.tell(thread.made.id)
        shelf.watchers.tell(None)


def _record(thread_id: str, ordinal: int, row: _Row, *, bodies: bool) -> Record:
    new = row.new
    return Record(
        thread_id=thread_id,
        ordinal=ordinal,
        kind=new.kind,
        at_ms=new.at_ms,
        turn=new.turn,
        tokens=new.tokens,
        body=row.body.data if bodies else b"",
        digest=row.body.digest,
        target=new.target,
        chain=new.chain,
        depth=new.depth,
        redacted=new.redacted,
        erased=row.body.erased_at_ms is not None,
    )


def _tokens(text: str) -> list[str]:
    """Return the words of a text without case and accents."""
    plain = text.casefold()
    if not plain.isascii():
        plain = "".join(letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter))
    return _TOKEN.findall(plain)


def _bm25(texts: dict[int, list[str]], wanted: Sequence[tuple[str, ...]]) -> dict[int, float]:
    """Return the score of every text that holds one of the phrases."""
    counts = {at: Counter({phrase: _times(phrase, text) for phrase in wanted}) for at, text in texts.items()}
    mean = sum(map(len, texts.values())) / max(len(texts), 1)
    scores: dict[int, float] = {}
    for phrase in wanted:
        holding = [at for at, count in counts.items() if count[phrase]]
        # A word that most texts hold would weigh less than nothing; it must not push a match behind a text without it.
        weight = max(log((len(texts) - len(holding) + 0.5) / (len(holding) + 0.5)), 1e-6)
        for at in holding:
            times, length = counts[at][phrase], len(texts[at])
            gain = weight * times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * length / mean))
            scores[at] = scores.get(at, 0.0) + gain
    return scores


def _times(phrase: tuple[str, ...], text: Sequence[str]) -> int:
    if len(phrase) == 1:
        return text.count(phrase[0])
    return sum(tuple(text[at : at + len(phrase)]) == phrase for at in range(len(text) - len(phrase) + 1))
