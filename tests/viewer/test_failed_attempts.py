"""What asking models for compactions cost, on a thread's pages: where nothing came of it, too."""

from __future__ import annotations

import html
import re

import pytest
from tests.drafting.replies import SUMMARY
from tests.histories import said, turns
from tests.viewer.conftest import Opened

from threadkeep import Threadkeep
from threadkeep.errors import NothingToCompact
from threadkeep.testing.scripted_model import ScriptedModel, Step, says
from threadkeep.viewer.number_format import format_dollars
from threadkeep.viewer.size_history import read_size_history

pytestmark = pytest.mark.anyio

PRICED = says(SUMMARY, input_tokens=50_000, output_tokens=900, cached_tokens=40_000, cost_usd=0.2)
HUGE = "Review this text: " + "lorem ipsum dolor " * 4_000


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


async def ask(tk: Threadkeep, name: str, step: Step) -> None:
    thread = await tk.find(name)
    async with ScriptedModel([step], dialect=thread.dialect.name, window_tokens=200_000) as model:
        await thread.compact(strategy="handoff", model=model)


async def in_vain(tk: Threadkeep) -> int:
    """Compact a thread of which no draft makes less, and return the record of what that cost."""
    thread = await tk.thread("huge")
    await thread.record([*turns(1, 1), said(HUGE)])
    await thread.record_usage(input_tokens=11_000, output_tokens=9)
    with pytest.raises(NothingToCompact):
        await ask(tk, "huge", PRICED)
    return (await thread.records())[-1].ordinal


async def test_a_compaction_that_came_to_nothing_is_on_the_thread_s_page(opened: Opened, work: Threadkeep) -> None:
    """Why, what was tried and what it cost, with a way to its record; a thread without one has no such table."""
    ordinal = await in_vain(work)
    async with opened() as looker:
        page = (await looker.get("/ui/t/huge")).text
        assert "Compactions without a checkpoint" not in (await looker.get("/ui/t/billing")).text
        line = words((await looker.get("/ui/t/huge/timeline")).text)
    told = f"#{ordinal} 2 nothing to compact handoff, extractive 1 50,000 40,000 900 $0.2000"
    assert told in words(page)
    assert f'href="/ui/t/huge/r/{ordinal}"' in page
    paid = "1 call, $0.2000, 50,000 tokens in, 40,000 of them from the cache, 900 out, "
    assert f"not compacted nothing_to_compact: {paid}" in line


async def test_it_is_no_point_of_the_plot(opened: Opened, work: Threadkeep) -> None:
    """What a draft's request held says nothing about the size of the thread's own."""
    await in_vain(work)
    series = await read_size_history(work, await work.find("huge"))
    assert [counted for counted in series.counted if counted is not None] == [11_000]


async def test_a_compaction_s_page_tells_what_its_cache_saved_and_what_nobody_told(opened: Opened, work: Threadkeep) -> None:
    """A dash stands for what is unknown, and a free model costs nothing."""
    for name, step in (("priced", PRICED), ("untold", says(SUMMARY))):
        await (await work.thread(name)).record(turns(1, 14))
        await ask(work, name, step)
    pages = []
    async with opened() as looker:
        for name in ("priced", "untold"):
            checkpoint = (await (await work.find(name)).window()).checkpoint
            pages.append(words((await looker.get(f"/ui/t/{name}/c/{checkpoint}")).text))
    assert "1 call $0.2000, 40,000 of 50,000 tokens from its cache" in pages[0]
    assert "handoff taken scripted:model 1 50,000 40,000 900 $0.2000" in pages[0]
    assert "1 call – Took" in pages[1]
    assert "handoff taken scripted:model 1 – – – –" in pages[1]
    assert (format_dollars(None), format_dollars(0)) == ("–", "$0.0000")
