"""A list of very many threads: every one can be reached, and where a page stops looking it says so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest
from tests.histories import said
from tests.viewer.conftest import Opened
from tests.viewer.test_pages import words

from threadkeep import Threadkeep
from threadkeep.store import NewRecord, NewThread, RecordKind
from threadkeep.threads import MetaBody, TurnBody, encode_body
from threadkeep.viewer.thread_list import MOST_LOOKED_AT, PAGE, Filter, list_threads

META = encode_body(MetaBody(dialect="responses"))


async def crowd(tk: Threadkeep, many: int) -> None:
    """Write so many threads, one after the other, each with a turn that names it."""
    store = tk.backend.store
    for start in range(0, many, 200):
        await asyncio.gather(*(_one(tk, number) for number in range(start, min(start + 200, many))))
    assert len(await store.threads(limit=2 * many)) >= many


async def _one(tk: Threadkeep, number: int) -> None:
    bodies = ((RecordKind.META, META), (RecordKind.TURN, encode_body(TurnBody(preview=f"About topic {number}."))))
    records = [NewRecord(kind=kind, at_ms=0, turn=0, tokens=0, body=body) for kind, body in bodies]
    await tk.backend.store.create(NewThread(id=f"crowd-{number}", dialect="responses", created_at_ms=0), records)


async def listed(tk: Threadkeep, asked: Filter) -> tuple[Sequence[str], int | None, int]:
    listing = await list_threads(tk, asked)
    return [each.id for each in listing.threads], listing.following, listing.looked_at


@pytest.mark.slow
@pytest.mark.anyio
async def test_every_thread_of_many_is_reached(opened: Opened, work: Threadkeep) -> None:
    """Page by page, or by its title with a page that says how far it looked."""
    await (await work.thread("the-oldest")).record([said("An old piece of work about marmalade.")])
    await crowd(work, MOST_LOOKED_AT + 30)
    everything: list[str] = []
    start: int | None = 0
    while start is not None:
        page, start, _ = await listed(work, Filter(start=start))
        assert len(page) == PAGE or start is None
        everything += page
    assert sorted(everything) == sorted(row.id for row in await work.backend.store.threads(limit=10_000))
    assert await listed(work, Filter(words="marmalade")) == ([], MOST_LOOKED_AT, MOST_LOOKED_AT)
    assert await listed(work, Filter(words="marmalade", start=MOST_LOOKED_AT)) == (["the-oldest"], None, 0)
    async with opened() as looker:
        page = (await looker.get("/ui/?q=marmalade")).text
        assert "Only the newest 500 threads were looked at; there are older ones." in words(page)
        further = re.findall(r'rel="next" href="([^"]+)">search older threads', page)[0].replace("&amp;", "&")
        assert re.findall(r'class="card-link" href="([^"]+)"', (await looker.get(further)).text) == ["/ui/t/the-oldest"]


@pytest.mark.anyio
async def test_words_are_searched_for_in_older_threads_on_request(opened: Opened, work: Threadkeep) -> None:
    """The link below a page without hits finds what was said in older threads."""
    await (await work.thread("the-oldest")).record([said("Hello."), said("Think of the marmalade.")])
    await crowd(work, MOST_LOOKED_AT + 10)
    async with opened() as looker:
        page = (await looker.get("/ui/?q=marmalade")).text
        assert "No record has these words." in words(page)
        older = re.findall(r'href="([^"]+)">search older threads', page)[0].replace("&amp;", "&")
        found = re.findall(r'class="row-link" href="([^"]+)"', (await looker.get(older)).text)
    assert found == ["/ui/t/the-oldest/r/4"]
