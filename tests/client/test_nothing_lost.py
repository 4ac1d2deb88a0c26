"""What was recorded stays readable, byte for byte, whatever becomes of the thread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.histories import turns

from threadkeep import Config, Thread, Threadkeep
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


async def items(thread: Thread) -> list[bytes]:
    return [record.body for record in await thread.records() if record.kind is RecordKind.ITEM]


async def test_what_was_rolled_back_is_read_back_byte_for_byte(store_file: Path) -> None:
    """After a compaction, an undo, a fork, two rollbacks and a restart, every item can be read as it was recorded."""
    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config) as first:
        thread = await first.thread("t")
        await thread.record(turns(1, 4))
        await thread.compact()
        await thread.record(turns(5, 6))
        recorded = await items(thread)
        assert [json.loads(body) for body in recorded] == turns(1, 6)
        child = await thread.fork(new_id="c")
        await thread.rollback(turns=1)
        await thread.undo()
        await thread.rollback(turns=4)
        await child.rollback(turns=5)
        assert list(await child.window()) == list(await thread.window()) == turns(1, 1)
        assert await items(thread) == recorded
    async with Threadkeep(config) as second:
        assert await items(await second.thread("t")) == recorded
        assert (await second.verify()).problems == ()
