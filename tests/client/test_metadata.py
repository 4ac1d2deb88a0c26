"""What a thread is called, and whether it is put away."""

from __future__ import annotations

import pytest
from tests.histories import said, turns

from threadkeep import Threadkeep
from threadkeep.errors import InvalidTarget

pytestmark = pytest.mark.anyio


async def test_a_title_of_its_own_takes_the_place_of_the_first_words(tk: Threadkeep) -> None:
    """Until it has one, a thread is called by what a person said first."""
    thread = await tk.thread("t")
    await thread.record([said("Please look into the parser.")])
    assert [summary.title for summary in await tk.threads()] == ["Please look into the parser."]
    await thread.rename("The parser")
    assert [summary.title for summary in await tk.threads()] == ["The parser"]


async def test_an_archived_thread_leaves_the_list_and_nothing_else(tk: Threadkeep) -> None:
    """It can be read, resumed, compacted and put back."""
    thread = await tk.thread("t")
    await thread.record(turns(1, 5))
    before = list(await thread.window())
    await thread.archive()
    assert await tk.threads() == []
    assert [summary.id for summary in await tk.threads(archived=True)] == ["t"]
    assert list(await thread.window()) == before
    await thread.record([said("Go on.")])
    await thread.unarchive()
    assert [(summary.id, summary.turns) for summary in await tk.threads()] == [("t", 6)]
    assert (await tk.verify()).ok


async def test_describing_a_thread_twice_the_same_way_writes_nothing(tk: Threadkeep) -> None:
    """Only a change is a record."""
    thread = await tk.thread("t")
    await thread.archive()
    records = len(await thread.records())
    await thread.archive()
    assert len(await thread.records()) == records


async def test_a_fork_after_a_turn_has_that_turn_and_none_later(tk: Threadkeep) -> None:
    """The turn after it begins elsewhere; the last turn may be named too."""
    thread = await tk.thread("t")
    await thread.record(turns(1, 4))
    early = await thread.fork(after_turn=2)
    late = await thread.fork(after_turn=4)
    assert list(await early.window()) == turns(1, 2)
    assert list(await late.window()) == turns(1, 4)
    with pytest.raises(InvalidTarget):
        await thread.fork(after_turn=5)
    with pytest.raises(InvalidTarget):
        await thread.fork(after_turn=1, before_turn=1)
