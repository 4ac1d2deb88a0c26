"""Where values came from is looked for as long as a compaction may wait, and what was not looked for is counted."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.histories import call, output, said, turns

from threadkeep import Thread, Threadkeep
from threadkeep.cli import main
from threadkeep.runtime import looking_back
from threadkeep.store import RecordKind
from threadkeep.thread import Checkpoint, decode_body

pytestmark = pytest.mark.anyio


async def using_what_is_out_of_view(tk: Threadkeep) -> Thread:
    """A thread whose newest calls are given what only a compacted output showed."""
    thread = await tk.thread("t")
    shown = "release_id: rel-48213-kestrel\nbuild host: forge-17.example.internal\n"
    await thread.record([said("Ship it."), call("a", '{"cmd":"make release"}'), output("a", shown)])
    await thread.record(turns(2, 9))
    await thread.compact()
    for number, value in enumerate(("rel-48213-kestrel", "forge-17.example.internal")):
        await thread.record([call(f"b{number}", json.dumps({"cmd": f"deploy {value}"})), output(f"b{number}", "done")])
    await thread.record(turns(10, 18))
    return thread


async def newest(thread: Thread) -> Checkpoint:
    records = [record for record in await thread.records() if record.kind is RecordKind.CHECKPOINT]
    return decode_body(records[-1].body, Checkpoint)


async def test_a_search_in_time_leaves_nothing_untraced(tk: Threadkeep) -> None:
    """Every value was looked for, and nothing is said of it."""
    thread = await using_what_is_out_of_view(tk)
    assert (await thread.compact()).untraced == 0
    assert "untraced" not in (await newest(thread)).figures


async def test_what_was_not_looked_for_is_counted(tk: Threadkeep, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that takes too long is given up: the report and the checkpoint say for how many values."""
    thread = await using_what_is_out_of_view(tk)
    monkeypatch.setattr(looking_back, "LONGEST_SEARCH_S", 0.0)
    rehearsed = await thread.compact(dry_run=True)
    report = await thread.compact()
    assert report.untraced == rehearsed.untraced >= 2
    assert (await newest(thread)).figures["untraced"] == report.untraced


async def test_the_command_line_says_it(
    tk: Threadkeep, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A person who compacts reads how many, and that recall finds them."""
    await using_what_is_out_of_view(tk)
    monkeypatch.setattr(looking_back, "LONGEST_SEARCH_S", 0.0)
    assert await asyncio.to_thread(main, ["compact", "t", "--store", tk.config.store]) == 0
    told = " ".join(capfd.readouterr().out.split())
    assert "values that calls were given not looked for: the search of older records took too long; recall finds them" in told
