"""Full text: how the index catches up with the records, and how it is asked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from threadkeep.store.base import Hit, Span
from threadkeep.store.search_words import space_cjk, split_phrases
from threadkeep.store.sqlite.operations import unpack
from threadkeep.store.sqlite.queries import QUERIES

# One batch holds the write lock for some milliseconds; larger ones would be felt by whoever appends meanwhile.
BATCH_RECORDS = 256
BATCH_BYTES = 1_000_000
# How many phrases of a query are paired, each with how many of those behind it, and how few words may lie between them in a text.
MOST_PAIRED, PAIR_REACH, NEAR_WORDS = 12, 4, 10
# The tokenizer knows the forms of English words; those of other languages are found by how a longer word begins.
BEGINNING_CHARS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far the index reaches, how many erasures it has seen, and the newest record there is."""

    upto: int
    erasures: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows for the index: what was indexed up to `was.upto`, and is up to `upto` once `rows` are in."""

    was: Reach
    upto: int
    rows: tuple[tuple[int, str], ...]


def match_expression(query: str) -> str:
    """Return an FTS5 expression that matches any phrase of `query`, or nothing if it has none.

    Phrases are quoted, so operators, column names and quotes in a query are data. Where phrases that are near each other in the
    query are so in a text, they count once more; of a longer word its beginning counts as well.
    """
    found = split_phrases(query)
    quoted = [f'"{phrase}"' for phrase in found]
    begun = dict.fromkeys(f'"{phrase[:BEGINNING_CHARS]}"*' for phrase in found if _inflected(phrase))
    pairs = [(first, then) for at, first in enumerate(quoted[:MOST_PAIRED]) for then in quoted[at + 1 : at + PAIR_REACH]]
    return " OR ".join((*quoted, *begun, *(f"NEAR({first} {then}, {NEAR_WORDS})" for first, then in pairs)))


def _inflected(phrase: str) -> bool:
    return len(phrase) >= BEGINNING_CHARS and phrase.isalpha()


def reach(connection: sqlite3.Connection) -> Reach:
    upto, erasures, newest = connection.execute(QUERIES["search_lag"]).fetchone()
    return Reach(upto=upto, erasures=erasures, newest=newest)


def gather(connection: sqlite3.Connection, *, was: Reach, searchable: Callable[[str, bytes], str]) -> Batch:
    """Prepare the next batch. Runs on a reader: taking text out of items is the slow part, and needs no lock."""
    rows: list[tuple[int, str]] = []
    size = 0
    for record, dialect, form, data in _unindexed(connection, upto=was.upto, newest=was.newest):
        text = space_cjk(searchable(dialect, unpack(form, data)))
        rows.append((record, text))
        size += len(text)
        if len(rows) == BATCH_RECORDS or size > BATCH_BYTES:
            return Batch(was=was, upto=record, rows=tuple(rows))
    return Batch(was=was, upto=was.newest, rows=tuple(rows))


def index(connection: sqlite3.Connection, batch: Batch) -> None:
    """Write a batch, unless someone else has moved the mark, or erased anything, since it was gathered."""
    values = {"upto": batch.upto, "was": batch.was.upto, "erasures": batch.was.erasures}
    if connection.execute(QUERIES["move_search_mark"], values).rowcount:
        connection.executemany(QUERIES["index_text"], batch.rows)


def search(connection: sqlite3.Connection, spans: Sequence[Span], match: str, *, tenant: int, limit: int) -> list[Hit]:
    values = {
        "spans": json.dumps([(span.thread_id, span.start, span.stop) for span in spans]),
        "tenant": tenant,
        "match": match,
        "limit": limit,
    }
    rows = connection.execute(QUERIES["search"], values).fetchall()
    return [Hit(thread_id=name, ordinal=ordinal, score=score) for name, ordinal, score in rows]


def _unindexed(connection: sqlite3.Connection, *, upto: int, newest: int) -> Iterator[tuple[int, str, int, bytes]]:
    cursor = connection.execute(QUERIES["unindexed"], {"upto": upto, "newest": newest})
    try:
        yield from cursor
    finally:
        # A cursor left open holds its snapshot, and the log cannot be checkpointed past it.
        cursor.close()
