"""A checkpoint names what it keeps; it does not hold it."""

from __future__ import annotations

import random
import sqlite3
from base64 import b64encode
from pathlib import Path

import pytest
from tests.parity.vocabulary import STATE, Speech, config, context, of_kind, seen, turn

from threadkeep import Thread, Threadkeep
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

ROUNDS = 6
WIDE_WINDOW = 1_000_000


def picture(size: int) -> str:
    """Return base64 that no packing makes smaller."""
    return b64encode(random.Random(7).randbytes(size)).decode()


def stored_bytes(file: Path) -> int:
    """Return how many bytes all bodies of a store take."""
    connection = sqlite3.connect(file)
    try:
        (size,) = connection.execute("SELECT sum(length(data)) FROM body").fetchone()
    finally:
        connection.close()
    return int(size)


async def compacted_over(thread: Thread, speech: Speech, *, kept: str) -> list[int]:
    """Compact again and again over one large host message that stays; return the size of each checkpoint."""
    await thread.record([context(speech, kept), *turn(speech, 0, lines=2_500)])
    for number in range(1, ROUNDS + 1):
        await thread.record(turn(speech, number, lines=2_500))
        await thread.compact(target="1")
        assert (await seen(thread))[:2] == [context(speech, kept), STATE]
    return [len(record.body) for record in await of_kind(thread, RecordKind.CHECKPOINT)]


async def test_a_checkpoint_is_as_small_over_a_large_kept_item_as_over_a_small_one(store_file: Path, speech: Speech) -> None:
    """Two histories that differ only in the size of what is kept have checkpoints that differ by a few digits."""
    async with Threadkeep(config(store_file, window_tokens=WIDE_WINDOW)) as tk:
        small = await compacted_over(await tk.thread("s", dialect=speech.dialect), speech, kept=picture(30))
        large = await compacted_over(await tk.thread("l", dialect=speech.dialect), speech, kept=picture(40_000))
    assert len(large) == ROUNDS
    assert [abs(one - other) < 50 for one, other in zip(small, large, strict=True)] == [True] * ROUNDS


async def test_compactions_over_unchanged_kept_items_grow_the_store_by_small_records(store_file: Path, speech: Speech) -> None:
    """Six compactions over 53 kB that stay add less than one copy of it, all they record included."""
    async with Threadkeep(config(store_file, window_tokens=WIDE_WINDOW)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await thread.record([context(speech, picture(40_000))])
        before = stored_bytes(store_file)
        await compacted_over(thread, speech, kept=picture(40_000))
    assert before > 40_000
    assert stored_bytes(store_file) - before < 40_000


async def test_an_image_is_stored_once_however_often_it_is_kept_or_sent_again(store_file: Path, speech: Speech) -> None:
    """Recorded in two threads and two turns, kept by a checkpoint, inherited by a fork: one body."""
    image = speech.pictured(picture(40_000))
    async with Threadkeep(config(store_file, window_tokens=WIDE_WINDOW)) as tk:
        thread, other = await tk.thread("t", dialect=speech.dialect), await tk.thread("o", dialect=speech.dialect)
        await thread.record([*turn(speech, 1, lines=20_000), image])
        before = stored_bytes(store_file)
        await thread.compact(target="1")
        assert await seen(thread) == [STATE, image]
        fork = await thread.fork(new_id="c")
        await fork.record([speech.answered("I see."), image])
        await other.record([image])
        assert await seen(fork) == [STATE, image, speech.answered("I see."), image]
    assert stored_bytes(store_file) - before < 10_000
