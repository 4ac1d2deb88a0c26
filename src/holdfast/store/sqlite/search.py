"""Full text: how text becomes words, and how the index catches up with the records."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.store.base import Hit, Span
from holdfast.store.sqlite.packing import unpack
from holdfast.store.sqlite.queries import QUERIES

# Scripts written without spaces between words; unicode61 would take a whole sentence of them for one word.
_CJK = (
    "\u3040-\u30ff"  # hiragana, katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # han
    "\uac00-\ud7af"  # hangul syllables
    "\uff66-\uff9d"  # half-width katakana
)
_CJK_CHARACTER = re.compile(f"([{_CJK}])")
_WORD = re.compile(f"[{_CJK}]+|(?:(?![{_CJK}])\\w)+")

# One batch holds the write lock for some milliseconds; larger ones would be felt by whoever appends meanwhile.
BATCH_RECORDS = 256
BATCH_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows for the index: what was indexed up to `was`, and is up to `upto` once `rows` are in."""

    was: int
    upto: int
    rows: tuple[tuple[int, str], ...]


def spaced(text: str) -> str:
    """Return `text` as the tokenizer must see it: every CJK character a word of its own, and no half surrogate.

    A transcript may say `\\ud83d` alone, which no database takes; one such record must not stop the index for good.
    """
    return _CJK_CHARACTER.sub(r" \1 ", text.encode("utf-8", "replace").decode("utf-8"))


def match_expression(query: str) -> str:
    """Return an FTS5 expression that matches any word of `query`, or nothing if it has no word.

    Words are quoted, so operators, column names and quotes in a query are data. A run of CJK characters matches by its
    pairs: single characters would find everything, the whole run only its exact repetition.
    """
    phrases: dict[str, None] = {}
    for word in _WORD.findall(query):
        if _CJK_CHARACTER.match(word):
            pairs = [word[at : at + 2] for at in range(len(word) - 1)] or [word]
            phrases.update(dict.fromkeys(" ".join(spaced(pair).split()) for pair in pairs))
        elif any(character.isalnum() for character in word):
            phrases[word] = None
    return " OR ".join(f'"{phrase}"' for phrase in phrases)


def lag(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return up to which record the index reaches, and the newest record there is."""
    upto, newest = connection.execute(QUERIES["search_lag"]).fetchone()
    return upto, newest


def gather(connection: sqlite3.Connection, *, upto: int, newest: int, searchable: Callable[[str, bytes], str]) -> Batch:
    """Prepare the next batch. Runs on a reader: taking text out of items is the slow part, and needs no lock."""
    rows: list[tuple[int, str]] = []
    size = 0
    for record, dialect, form, data in _unindexed(connection, upto=upto, newest=newest):
        text = spaced(searchable(dialect, unpack(form, data)))
        rows.append((record, text))
        size += len(text)
        if len(rows) == BATCH_RECORDS or size > BATCH_BYTES:
            return Batch(was=upto, upto=record, rows=tuple(rows))
    return Batch(was=upto, upto=newest, rows=tuple(rows))


def index(connection: sqlite3.Connection, batch: Batch) -> None:
    """Write a batch, unless someone else has moved the mark since it was gathered."""
    if connection.execute(QUERIES["move_search_mark"], {"upto": batch.upto, "was": batch.was}).rowcount:
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
