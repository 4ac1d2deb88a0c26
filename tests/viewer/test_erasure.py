"""What was erased has no size: in the list, in the overview, in the plot, whether it was looked at before or not."""

from __future__ import annotations

import re

import pytest
from tests.viewer.conftest import Opened

from threadkeep import Threadkeep
from threadkeep.erasure.erase import erase, plan_erasure
from threadkeep.store import NewRecord, RecordKind
from threadkeep.viewer.size_history import Lives
from threadkeep.viewer.window_sizes import Sizes, sighted


async def erased(tk: Threadkeep, name: str, *ordinals: int) -> None:
    """Erase records, or the whole thread, as `threadkeep erase` does."""

    async def recompact(thread_id: str) -> object:
        return await (await tk.find(thread_id)).compact(strategy="extractive")

    plan = await plan_erasure(tk.backend, name, ordinals or None)
    await erase(tk.backend, plan, reason="asked to", memories=tk.memory, recompact=recompact)


def listed_tokens(page: str) -> dict[str, str]:
    """Return the sizes a list shows, by thread."""
    cards = page.split('<li class="card" id="t-')[1:]
    return {card.split('"', 1)[0]: re.findall(r"([\d,]+) tokens", card)[0] for card in cards}


@pytest.mark.anyio
@pytest.mark.parametrize("ordinals", [(), (4,), (18, 21)], ids=["the whole thread", "half a call", "two messages"])
async def test_sizes_are_the_window_s_before_and_after_an_erasure(work: Threadkeep, ordinals: tuple[int, ...]) -> None:
    """Of the thread and of its fork, whether looked at before or not: in the list, and at the end of the plot."""
    sizes, lives = Sizes(), Lives()
    for change in ("none", "erased"):
        if change == "erased":
            await erased(work, "billing", *ordinals)
        for name in ("billing", "billing-with-replica"):
            thread = await work.find(name)
            real = (await thread.history()).tokens
            row = await work.backend.store.get(name)
            assert [await each.of(work.backend.store, row) for each in (sizes, Sizes())] == [real, real]
            known, anew = await lives.series_of(work, thread), await Lives().series_of(work, thread)
            assert known == anew
            assert [size for size in anew.window if size is not None][-1] == real


@pytest.mark.anyio
async def test_the_pages_of_an_erased_thread_say_nothing_is_left(opened: Opened, work: Threadkeep) -> None:
    """What its page counted before is gone from it and from the list after."""
    async with opened() as looker:
        assert listed_tokens((await looker.get("/ui/")).text)["billing"] != "0"
        await erased(work, "billing")
        overview = (await looker.get("/ui/t/billing")).text
        assert re.findall(r"<strong>([\d,]+)</strong> of [\d,]+ tokens", overview) == ["0"]
        assert listed_tokens((await looker.get("/ui/?only=archived")).text)["billing"] == "0"


@pytest.mark.anyio
async def test_an_erasure_that_is_noted_and_not_yet_done_is_seen_again(work: Threadkeep) -> None:
    """Its note comes first; who looks in between looks again until the bytes are gone, and then no more."""
    store = work.backend.store
    note = b'{"note":"erasure","ordinals":[18],"asked":[18]}'
    first = await sighted(store, ["billing"])
    assert (first.erased, first.marks) == (False, {"billing": (await store.get("billing")).next})
    record = NewRecord(kind=RecordKind.NOTE, at_ms=0, turn=0, tokens=0, body=note)
    at = await store.append("billing", [record], expected=first.marks["billing"]) - 1
    between = await sighted(store, ["billing"], before=first)
    assert (between.erased, between.marks) == (True, {"billing": at})
    await store.erase("billing", [18], at_ms=0)
    after = await sighted(store, ["billing"], before=between)
    assert (after.erased, after.marks) == (True, {"billing": at + 1})
    assert (await sighted(store, ["billing"], before=after)).erased is False
