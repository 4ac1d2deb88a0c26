"""A store that lives as long as the process: for tests, and for sessions that are not kept."""

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
# The usual constants of Okapi BM25, as in FTS5: how soon a repeated word stops counting, and how much length counts.
_K1, _B = 1.2, 0.75


@dataclass(slots=True)
class _Body:
    """Bytes that several records may share; empty once erased."""

    data: bytes
    digest: bytes
    erased_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """A record as it was appended, without its bytes; `number` counts over all threads of the tenant."""

    number: int
    new: NewRecord
    body: _Body


@dataclass(frozen=True, slots=True)
class _Thread:
    new: NewThread
    number: int
    rows: list[_Row] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.new.start + len(self.rows)

    def make_row(self) -> ThreadRow:
        new = self.new
        updated = self.rows[-1].new.at_ms if self.rows else new.created_at_ms
        return ThreadRow(
            id=new.id,
            dialect=new.dialect,
            created_at_ms=new.created_at_ms,
            updated_at_ms=updated,
            start=new.start,
            parent=new.parent,
            next=self.end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    holder: str
    ttl_ms: int
    expires_at_ms: int


@dataclass(slots=True)
class _Contents:
    """What one tenant has."""

    tenant: Tenant
    threads: dict[str, _Thread] = field(default_factory=dict)
    bodies: dict[bytes, _Body] = field(default_factory=dict)
    chains: defaultdict[bytes, list[tuple[int, Found]]] = field(default_factory=lambda: defaultdict(list))
    leases: dict[str, _Lease] = field(default_factory=dict)
    written: int = 0
    watchers: Watchers = field(default_factory=lambda: Watchers(are_notified=True))


class MemoryDatabase:
    """The tenants of one process. Belongs to one event loop."""

    def __init__(self, *, searchable: Callable[[str, bytes], str]) -> None:
        self._searchable = searchable
        self._contents_by_tenant: dict[str, _Contents] = {}

    async def open_tenant(self, name: str = "local", *, key: bytes | None = None) -> MemoryStore:
        """Return a store of the tenant called `name`; its stores share their contents, and each is closed on its own.

        A new tenant gets `key` if one is given: that of the store its threads are copied from.
        """
        contents = self._contents_by_tenant.get(name)
        if contents is None:
            contents = self._contents_by_tenant[name] = _Contents(Tenant(name=name, key=key or secrets.token_bytes(_KEY_BYTES)))
        return MemoryStore(contents, searchable=self._searchable)

    async def has_tenant(self, name: str) -> bool:
        """Whether there is a tenant called `name`; none is made."""
        return name in self._contents_by_tenant

    async def close(self) -> None:
        """Do nothing: the contents go with the process."""


class MemoryStore:
    """`ThreadStore` and every optional port for one tenant; contracts are stated there. Made by `MemoryDatabase`.

    No method waits for anything, so each is one unit for every task of the loop.
    """

    def __init__(self, contents: _Contents, *, searchable: Callable[[str, bytes], str]) -> None:
        self._contents = contents
        self._searchable = searchable
        self._closed = False

    @property
    def tenant(self) -> Tenant:
        return self._contents.tenant

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        threads = self._require_open().threads
        if thread.id in threads:
            raise ThreadExists(thread.id)
        if thread.parent is not None and thread.parent not in threads:
            raise ThreadNotFound(thread.parent)
        threads[thread.id] = made = _Thread(thread, number=len(threads))
        self._add(made, records)

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        thread = self._find_thread(thread_id)
        if thread.end != expected:
            raise OrdinalConflict(thread_id, expected=expected, actual=thread.end)
        self._add(thread, records)
        return thread.end

    async def get(self, thread_id: str) -> ThreadRow:
        return self._find_thread(thread_id).make_row()

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        named = [thread for name, thread in self._require_open().threads.items() if name.startswith(prefix)]
        named.sort(key=lambda thread: (thread.rows[-1].number if thread.rows else -1, thread.number), reverse=True)
        return [thread.make_row() for thread in named[:limit]]

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
            _make_record(span.thread_id, ordinal, row, bodies=bodies)
            for ordinal, row in self._iterate(span)
            if (kinds is None or row.new.kind in kinds)
            and (chosen is None or ordinal in chosen)
            and (turn is None or row.new.turn == turn)
        ]
        if newest_first:
            found.reverse()
        return found[:limit]

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        known = self._require_open().chains
        found = [match for chain in set(chains) for match in known.get(chain, ())]
        return [each for _, each in sorted(found, key=lambda match: match[0], reverse=True)]

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        wanted = [tuple(_split_words(phrase)) for phrase in split_phrases(query)]
        places: dict[int, tuple[str, int]] = {}
        texts: dict[int, list[str]] = {}
        for span in spans:
            for ordinal, row in self._iterate(span):
                if row.new.kind is RecordKind.ITEM and row.body.erased_at_ms is None:
                    dialect = self._contents.threads[span.thread_id].new.dialect
                    places[row.number] = (span.thread_id, ordinal)
                    texts[row.number] = _split_words(space_cjk(self._searchable(dialect, row.body.data)))
        best = sorted(((score, number) for number, score in _score_texts(texts, wanted).items()), reverse=True)
        return [Hit(thread_id=places[at][0], ordinal=places[at][1], score=score) for score, at in best[:limit]]

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        leases = self._require_open().leases
        held = leases.get(key)
        if held is not None and held.holder != holder:
            if held.expires_at_ms - held.ttl_ms > now_ms:
                held = leases[key] = _Lease(holder=held.holder, ttl_ms=held.ttl_ms, expires_at_ms=now_ms + held.ttl_ms)
            if held.expires_at_ms > now_ms:
                return False
        leases[key] = _Lease(holder=holder, ttl_ms=ttl_ms, expires_at_ms=now_ms + ttl_ms)
        return True

    async def release(self, key: str, *, holder: str) -> None:
        leases = self._require_open().leases
        if key in leases and leases[key].holder == holder:
            del leases[key]

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        thread, chosen = self._find_thread(thread_id), set(ordinals)
        rows = (row for at, row in enumerate(thread.rows, start=thread.new.start) if at in chosen)
        gone = {id(row.body): row.body for row in rows if row.body.erased_at_ms is None}
        for body in gone.values():
            body.data, body.erased_at_ms = b"", at_ms
            del self._contents.bodies[body.digest]
        return sum(id(row.body) in gone for each in self._contents.threads.values() for row in each.rows)

    @asynccontextmanager
    async def watch(self, thread_id: str | None = None) -> AsyncIterator[Watch]:
        watchers = self._require_open().watchers
        if thread_id is not None:
            self._find_thread(thread_id)
        with watchers.add(thread_id) as watch:
            yield watch

    async def close(self) -> None:
        """Close this store; what it holds stays with its `MemoryDatabase`."""
        self._closed = True

    def _require_open(self) -> _Contents:
        if self._closed:
            raise StoreClosed("in memory")
        return self._contents

    def _find_thread(self, thread_id: str) -> _Thread:
        thread = self._require_open().threads.get(thread_id)
        if thread is None:
            raise ThreadNotFound(thread_id)
        return thread

    def _iterate(self, span: Span) -> Iterator[tuple[int, _Row]]:
        thread = self._require_open().threads.get(span.thread_id)
        if thread is None:
            return
        start, stop = max(span.start, thread.new.start), min(span.stop, thread.end)
        for ordinal in range(start, stop):
            yield ordinal, thread.rows[ordinal - thread.new.start]

    def _add(self, thread: _Thread, records: Sequence[NewRecord]) -> None:
        contents = self._contents
        for new in records:
            digest = digest_body(new.body)
            body = contents.bodies.setdefault(digest, _Body(new.body, digest))
            if new.chain is not None and new.depth is not None:
                found = Found(chain=new.chain, thread_id=thread.new.id, ordinal=thread.end, depth=new.depth)
                contents.chains[new.chain].append((contents.written, found))
            thread.rows.append(_Row(contents.written, replace(new, body=b""), body))
            contents.written += 1
        contents.watchers.notify(thread.new.id)
        contents.watchers.notify(None)


def _make_record(thread_id: str, ordinal: int, row: _Row, *, bodies: bool) -> Record:
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


def _split_words(text: str) -> list[str]:
    """Return the words of a text, without case and accents."""
    plain = text.casefold()
    if not plain.isascii():
        plain = "".join(letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter))
    return _TOKEN.findall(plain)


def _score_texts(texts: dict[int, list[str]], wanted: Sequence[tuple[str, ...]]) -> dict[int, float]:
    """Return the BM25 score of every text that holds one of the phrases."""
    counts = {at: Counter({phrase: _count_phrase(phrase, text) for phrase in wanted}) for at, text in texts.items()}
    mean = sum(map(len, texts.values())) / max(len(texts), 1)
    scores: dict[int, float] = {}
    for phrase in wanted:
        holding = [at for at, count in counts.items() if count[phrase]]
        # A word in most texts would weigh less than nothing; it must not push a match behind a text without it.
        weight = max(log((len(texts) - len(holding) + 0.5) / (len(holding) + 0.5)), 1e-6)
        for at in holding:
            times, length = counts[at][phrase], len(texts[at])
            gain = weight * times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * length / mean))
            scores[at] = scores.get(at, 0.0) + gain
    return scores


def _count_phrase(phrase: tuple[str, ...], text: Sequence[str]) -> int:
    if len(phrase) == 1:
        return text.count(phrase[0])
    return sum(tuple(text[at : at + len(phrase)]) == phrase for at in range(len(text) - len(phrase) + 1))
