"""What the guard counts of a store's file: storage that doubles, or is no longer compressed, is another count."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from random import Random

import pytest

from benchmarks.guard.statements import stored
from threadkeep.client import Config, Threadkeep
from threadkeep.store.sqlite import operations

SHORT = {"role": "user", "content": "Begin."}
LONG = {"role": "assistant", "content": "The same words over and over. " * 200}


async def kept(file: Path, *items: dict[str, str]) -> dict[str, dict[str, int]]:
    """What the file of two threads holds that say the same."""
    async with Threadkeep(Config(store=str(file))) as tk:
        for name in ("one", "two"):
            await (await tk.thread(name, dialect="chat")).record(items)
    return stored(file)


@pytest.mark.anyio
async def test_rows_bodies_and_bytes_are_counted_as_they_lie_in_the_file(tmp_path: Path) -> None:
    """A body that two threads hold is there once; a long one is deflated, and counts with what it was before."""
    found = await kept(tmp_path / "a.db", SHORT, LONG)
    assert found["rows"] == {"body": 4, "lease": 0, "record": 8, "search_mark": 1, "tenant": 1, "thread": 2}
    assert found["bodies"] == {
        "distinct": 4,
        "stored as they are, bytes": found["bodies"]["stored as they are, bytes"],
        "deflated": 1,
        "deflated, bytes before": len('{"role":"assistant","content":""}') + 30 * 200,
        "deflated to more than two thirds": 0,
    }
    assert 0 < found["bodies"]["stored as they are, bytes"] < 500


@pytest.mark.anyio
async def test_compression_that_is_lost_changes_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored as they are, long bodies take their whole length."""
    monkeypatch.setattr(operations, "_LEVEL", 0)
    bodies = (await kept(tmp_path / "lost.db", SHORT, LONG))["bodies"]
    assert (bodies["deflated"], bodies["stored as they are, bytes"] > 6_000) == (0, True)


@pytest.mark.anyio
async def test_compression_that_takes_little_away_changes_a_count(tmp_path: Path) -> None:
    """What is left by more than two thirds is counted: no text of words is."""
    noise = {"role": "assistant", "content": b64encode(Random(1).randbytes(3_000)).decode()}
    bodies = (await kept(tmp_path / "weak.db", LONG, noise))["bodies"]
    assert (bodies["deflated"], bodies["deflated to more than two thirds"]) == (2, 1)
