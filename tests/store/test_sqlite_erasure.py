"""Erased bytes are in none of the store's files.

Of one backend alone: looks for bytes in the files of a store.
"""

from __future__ import annotations

import random
import sqlite3
import zlib
from pathlib import Path

import pytest

from threadkeep.errors import StoreError
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore, file
from threadkeep.store.sqlite import search as index
from threadkeep.store.sqlite.operations import Form, pack_body

pytestmark = pytest.mark.anyio

EVERYTHING = Span(thread_id="t", start=0, stop=10**9)


def item(body: bytes) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=body)


async def open_store(path: Path) -> SqliteStore:
    return await (await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())).open_tenant()


def on_disk(folder: Path, needle: bytes) -> list[str]:
    """Return the files in which the needle lies."""
    return sorted(place.name for place in folder.iterdir() if needle in place.read_bytes())


def words(chance: random.Random, length: int) -> bytes:
    return b" ".join(b"%08x" % chance.getrandbits(32) for _ in range(length // 9))


async def test_erased_bytes_are_found_in_no_file(tmp_path: Path) -> None:
    """Small, deflated and page-filling bodies, indexed or not: while the store is open no trace of them is left on disk."""
    chance = random.Random(7)
    kept = [words(chance, length) for length in (40, 700, 5_000, 40_000)] * 3
    secrets = [b"needle%04d " % at + words(chance, length) for at, length in enumerate((10, 600, 1_500, 9_000, 200_000))]
    store = await open_store(tmp_path / "s.db")
    bodies = [body for pair in zip(kept, [*secrets, *kept], strict=False) for body in pair]
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item(body) for body in bodies])
    assert await store.search([EVERYTHING], "needle0003", limit=1)
    await store.append("t", [item(secret + b" late") for secret in secrets], expected=len(bodies))
    stored = [pack_body(body)[1] for secret in secrets for body in (secret, secret + b" late")]
    traces = [data[at : at + 12] for data in stored for at in range(0, len(data) - 12, max(len(data) // 5, 1))]
    traces += [b"needle%04d" % at for at in range(len(secrets))]
    # A trace may lie across two pages, or share its beginning with the word before it in the index.
    assert len([trace for trace in traces if on_disk(tmp_path, trace)]) > 0.8 * len(traces)
    erased = [at for at, body in enumerate(bodies) if body in secrets] + [len(bodies) + at for at in range(len(secrets))]
    assert await store.erase("t", erased, at_ms=1) == 2 * len(secrets)
    assert [trace for trace in traces if on_disk(tmp_path, trace)] == []
    assert (tmp_path / "s.db-wal").stat().st_size == 0
    found = await store.read(EVERYTHING)
    assert [record.ordinal for record in found if record.erased] == erased
    assert [record.body for record in found if not record.erased] == [body for body in bodies if body not in secrets]
    assert await store.search([EVERYTHING], "needle0003", limit=1) == []
    assert [trace for trace in traces if on_disk(tmp_path, trace)] == []
    await store.close()
    assert [trace for trace in traces if on_disk(tmp_path, trace)] == []


async def test_words_that_outlived_merges_of_the_index_are_gone_too(tmp_path: Path) -> None:
    """A word that went through many segments of the index leaves none of them behind, free pages included."""
    store = await open_store(tmp_path / "s.db")
    chance = random.Random(8)
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item(b"zebraneedle first")])
    for at in range(1, 40):
        await store.append("t", [item(words(chance, 2_000))], expected=at)
        await store.search([EVERYTHING], "zebraneedle", limit=1)
    assert on_disk(tmp_path, b"ebraneedle")
    await store.erase("t", [0], at_ms=1)
    assert on_disk(tmp_path, b"ebraneedle") == []
    hits = await store.search([EVERYTHING], words(chance, 9).decode() + " zebraneedle", limit=9)
    assert hits == []
    await store.close()


async def test_text_read_before_an_erasure_is_not_indexed_after_it(tmp_path: Path) -> None:
    """A search that gathered its batch, and then lost the race against an erasure, does not bring the words back."""
    store = await open_store(tmp_path / "s.db")
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item(b"secretword"), item(b"other")])
    was = await store._readers.run(index.read_index_state)
    batch = await store._readers.run(
        lambda connection: index.gather_batch(connection, was=was, searchable=lambda _, body: body.decode())
    )
    assert batch.rows == ((1, "secretword"), (2, "other"))
    await store.erase("t", [0], at_ms=1)
    await store._writer.run(lambda connection: index.write_batch(connection, batch))
    assert on_disk(tmp_path, b"secretword") == []
    assert await store.search([EVERYTHING], "secretword", limit=9) == []
    assert [hit.ordinal for hit in await store.search([EVERYTHING], "other", limit=9)] == [1]
    await store.close()


async def test_a_log_in_use_elsewhere_is_told_and_erasing_again_finishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process reads an older state the log cannot be emptied; the caller learns it, and can try again."""
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.001)
    path = tmp_path / "s.db"
    store = await open_store(path)
    secret = b"needle in the log"
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item(secret)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM record").fetchall()
    with pytest.raises(StoreError, match="erase again"):
        await store.erase("t", [0], at_ms=1)
    assert [record.erased for record in await store.read(EVERYTHING)] == [True]
    assert on_disk(tmp_path, secret) != []
    other.execute("COMMIT")
    other.close()
    assert await store.erase("t", [0], at_ms=2) == 0
    assert on_disk(tmp_path, secret) == []
    await store.close()


def test_a_large_body_of_noise_is_deflated_in_these_tests() -> None:
    """Hexadecimal words shrink, so the traces looked for above are of both forms."""
    body = words(random.Random(7), 5_000)
    form, data = pack_body(body)
    assert (form, zlib.decompress(data)) == (Form.DEFLATED, body)
