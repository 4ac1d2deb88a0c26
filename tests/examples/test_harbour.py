"""The harbour runs offline in seconds, and its claims about itself are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from examples.harbour import NAMES, play
from tests.cli.stories import surroundings

from threadkeep import Config, Threadkeep
from threadkeep.items import Item, ItemKind
from threadkeep.store import RecordKind

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

AGENTS, DAYS = 4, 13


async def test_agents_share_a_store_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """Every fisher has a thread and all share one: each call was heard once and in order, and the coins match the sales."""
    store = tmp_path / "harbour.db"
    result = await play(store, agents=AGENTS, days=DAYS)
    assert result.is_sound
    assert result.compactions > 0
    heard = re.findall(r"(\w+) was here on day (\d+)", "\n".join(result.log))
    assert len(heard) == len(set(heard)) > 0
    assert [int(day) for _, day in heard] == sorted(int(day) for _, day in heard)
    async with Threadkeep(Config(store=str(store))) as tk:
        threads = await tk.threads()
        assert {thread.id for thread in threads} == {"square", *(f"fisher-{name}" for name in NAMES[:AGENTS])}
        for name in NAMES[:AGENTS]:
            outputs = await read_outputs(tk, f"fisher-{name}")
            sold = [int(fish) * int(price) for fish, price in re.findall(r"sold (\d+) fish at (\d+)", "\n".join(outputs))]
            called = {day for text in outputs for day in re.findall(r"called out: \w+ was here on day (\d+)", text)}
            assert sum(sold) == result.coins[name]
            assert called == {day for who, day in heard if who == name}
            assert len(outputs) == DAYS


async def read_outputs(tk: Threadkeep, thread_id: str) -> list[str]:
    """Return every tool output of a thread, also those that left its window."""
    thread = await tk.thread(thread_id)
    items = [Item(record.body) for record in await thread.records() if record.kind is RecordKind.ITEM]
    return [view.text for _, view in thread.seen(items) if view.kind is ItemKind.OUTPUT]


def test_it_runs_as_its_first_lines_say() -> None:
    """`python examples/harbour.py` needs no argument, key or network."""
    root = Path(__file__).resolve().parents[2]
    line = [sys.executable, str(root / "examples" / "harbour.py")]
    ran = subprocess.run(line, env=surroundings(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"\d+ records, [1-9]\d* compactions, sound\n\Z", ran.stdout)
