"""Full text: how the index catches up with the records, and how it is searched."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from threadkeep.store.base import Hit, Span
from threadkeep.store.search_words import PREFIX_CHARS, find_exact, space_cjk, split_phrases
from threadkeep.store.sqlite.operations import unpack_body
from threadkeep.store.sqlite.sql_files import QUERIES

# One batch holds the write lock for some milliseconds; larger ones would delay appends.
BATCH_RECORDS = 256
BATCH_BYTES = 1_000_000
# How many phrases of a query are paired, each with how many of those behind it, and how few words may lie between them in a text.
MOST_PAIRED, PAIR_REACH, NEAR_WORDS = 12, 4, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """How far the index reaches, how many erasures it has seen, and the newest record there is."""

    upto: int
    erasures: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows for an index that was in the state `was`, and reaches to `upto` once they are in."""

    was: IndexState
    upto: int
    rows: tuple[tuple[int, str], ...]


def make_expression(query: str) -> str:
    """Return an FTS5 expression that matches any phrase of `query`, or "" if it has none.

    Phrases are quoted, so operators, column names and quotes in a query are data. Phrases that are near each other in the query
    and in a text count once more, and so does what the query names exactly; of a longer word its beginning counts as well.
    """
    exact = [f'"{space_cjk(name)}"' for name in find_exact(query) if '"' not in name]
    found = split_phrases(query)
    quoted = [f'"{phrase}"' for phrase in found]
    prefixes = dict.fromkeys(
        f'"{phrase[:PREFIX_CHARS]}"*' for phrase in found if len(phrase) >= PREFIX_CHARS and phrase.isalpha()
    )
    pairs = [(first, then) for at, first in enumerate(quoted[:MOST_PAIRED]) for then in quoted[at + 1 : at + PAIR_REACH]]
    near = (f"NEAR({first} {then}, {NEAR_WORDS})" for first, then in pairs)
    return " OR ".join(dict.fromkeys((*quoted, *exact, *prefixes, *near)))


def read_index_state(connection: sqlite3.Connection) -> IndexState:
    upto, erasures, newest = connection.execute(QUERIES["index_state"]).fetchone()
    return IndexState(upto=upto, erasures=erasures, newest=newest)


def gather_batch(connection: sqlite3.Connection, *, was: IndexState, searchable: Callable[[str, bytes], str]) -> Batch:
    """Prepare the next batch. Runs on a reader: extracting text from items is the slow part, and needs no lock."""
    rows: list[tuple[int, str]] = []
    size = 0
    # A cursor left open holds its snapshot, and the log cannot be checkpointed past it.
    with closing(connection.execute(QUERIES["unindexed"], {"upto": was.upto, "newest": was.newest})) as unindexed:
        for record, dialect, form, data in unindexed:
            text = space_cjk(searchable(dialect, unpack_body(form, data)))
            rows.append((record, text))
            size += len(text)
            if len(rows) == BATCH_RECORDS or size > BATCH_BYTES:
                return Batch(was=was, upto=record, rows=tuple(rows))
    return Batch(was=was, upto=was.newest, rows=tuple(rows))


def write_batch(connection: sqlite3.Connection, batch: Batch) -> None:
    """Write a batch, unless the index moved on, or anything was erased, since it was gathered."""
    values = {"upto": batch.upto, "was": batch.was.upto, "erasures": batch.was.erasures}
    if connection.execute(QUERIES["move_index_mark"], values).rowcount:
        connection.executemany(QUERIES["index_text"], batch.rows)


def search_index(connection: sqlite3.Connection, tenant: int, spans: Sequence[Span], expression: str, *, limit: int) -> list[Hit]:
    values = {
        "spans": json.dumps([(span.thread_id, span.start, span.stop) for span in spans]),
        "tenant": tenant,
        "match": expression,
        "limit": limit,
    }
    rows = connection.execute(QUERIES["search"], values).fetchall()
    return [Hit(thread_id=name, ordinal=ordinal, score=score) for name, ordinal, score in rows]
