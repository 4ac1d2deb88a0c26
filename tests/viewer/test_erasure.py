"""What was erased has no size: in the list, in the overview, in the plot."""

from __future__ import annotations

import re

import pytest
from tests.viewer.conftest import Opened

from threadkeep import Threadkeep
from threadkeep.erasure.erase import erase, plan_erasure
from threadkeep.threads.summary import measure_window
from threadkeep.viewer.size_history import read_size_history


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
    """Of the thread and of its fork: in the list, and at the end of the plot."""
    for change in ("none", "erased"):
        if change == "erased":
            await erased(work, "billing", *ordinals)
        for name in ("billing", "billing-with-replica"):
            thread = await work.find(name)
            real = (await thread.history()).tokens
            assert await measure_window(work.backend.store, await work.backend.store.get(name)) == real
            history = await read_size_history(work, thread)
            assert [size for size in history.window if size is not None][-1] == real


@pytest.mark.anyio
async def test_the_pages_of_an_erased_thread_say_nothing_is_left(opened: Opened, work: Threadkeep) -> None:
    """What its page counted before is gone from it and from the list after."""
    async with opened() as looker:
        assert listed_tokens((await looker.get("/ui/")).text)["billing"] != "0"
        await erased(work, "billing")
        overview = (await looker.get("/ui/t/billing")).text
        assert re.findall(r"<strong>([\d,]+)</strong> of [\d,]+ tokens", overview) == ["0"]
        assert listed_tokens((await looker.get("/ui/?only=archived")).text)["billing"] == "0"
