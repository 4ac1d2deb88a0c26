"""How text becomes words, and how the index keeps up.

Of one backend alone: the words of SQLite's index; PostgreSQL has its own text search.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.search_words import space_cjk
from threadkeep.store.sqlite import SqliteDatabase
from threadkeep.store.sqlite.search import BATCH_BYTES, BATCH_RECORDS, make_expression

EVERYTHING = Span(thread_id="t", start=0, stop=10**9)


@pytest.mark.parametrize(
    ("query", "expression"),
    [
        ("which port", '"port"'),
        ("which is it", '"which" OR "is" OR "it" OR NEAR("which" "is", 10) OR NEAR("which" "it", 10) OR NEAR("is" "it", 10)'),
        ("port port", '"port"'),
        ("a.py", '"py" OR "a.py"'),
        ('say "no" OR NOT (x*)', '"say" OR "x" OR "no" OR NEAR("say" "x", 10)'),
        ("端口8080", '"端 口" OR "8080" OR NEAR("端 口" "8080", 10)'),
        ("水", '"水"'),
        (" ?! __ \0", ""),
    ],
)
def test_a_query_is_words(query: str, expression: str) -> None:
    """Words are quoted and joined by OR, once more by nearness and as what was named exactly; signs are nothing.

    Scripts without spaces go by pairs.
    Function words count only where there is nothing else.
    """
    assert make_expression(query) == expression


def test_text_is_spaced_for_the_tokenizer() -> None:
    """CJK characters become words of their own, and half a surrogate becomes a question mark."""
    assert space_cjk("the 端口, \ud83d end") == "the  端  口 , ? end"


def item(text: str) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=text.encode())


@pytest.mark.anyio
async def test_the_index_catches_up_over_many_batches(tmp_path: Path) -> None:
    """More records than one batch takes, by count and by size, are all found by the first search."""
    seen: list[str] = []

    def searchable(dialect: str, body: bytes) -> str:
        seen.append(dialect)
        return body.decode()

    database = await SqliteDatabase.open(tmp_path / "s.db", searchable=searchable)
    store = await database.open_tenant()
    records = [item(f"needle w{number}") for number in range(2 * BATCH_RECORDS + 1)]
    records += [item("needle " + "x" * BATCH_BYTES), item("last needle")]
    await store.create(NewThread(id="t", dialect="messages", created_at_ms=0), records)
    assert seen == []
    hits = await store.search([EVERYTHING], "needle", limit=10_000)
    assert sorted(hit.ordinal for hit in hits) == list(range(len(records)))
    assert [hit.ordinal for hit in await store.search([EVERYTHING], "w511", limit=9)] == [511]
    assert seen == ["messages"] * len(records)
    await database.close()
