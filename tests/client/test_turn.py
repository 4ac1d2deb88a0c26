"""A turn: its input is durable first, and a compaction never costs it anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.histories import answered, environment, said, turn, turns

from threadkeep import Config, Head, Threadkeep
from threadkeep.errors import InvalidItem

pytestmark = pytest.mark.anyio


async def test_the_input_is_durable_before_a_window_is_asked_for(tk: Threadkeep, store_file: Path) -> None:
    """Another process sees it while the turn has only begun."""
    thread = await tk.thread("t")
    async with thread.turn([environment("/src"), said("Do it.")]), Threadkeep(Config(store=str(store_file))) as other:
        assert list(await (await other.thread("t")).window()) == [environment("/src"), said("Do it.")]


async def test_over_the_hard_limit_the_turn_compacts_and_its_request_is_whole_and_last(tk: Threadkeep) -> None:
    """The window shrinks below the limit and ends with the new request."""
    thread = await tk.thread("t")
    await thread.record(turns(1, 14))
    request = said("Now summarise what we have.\n\nNever mention part 3.")
    async with thread.turn([request]) as open_turn:
        window = await open_turn.window()
    assert window[-1] == request
    assert window.checkpoint is not None
    assert window.trouble is None
    assert not window.pressure.must_compact


async def test_below_the_limit_nothing_is_compacted(tk: Threadkeep) -> None:
    """What fits is sent as it is."""
    thread = await tk.thread("t")
    async with thread.turn(turn(1)) as open_turn:
        window = await open_turn.window()
    assert (list(window), window.checkpoint) == (turn(1), None)


async def test_a_compaction_that_fails_costs_nothing_and_says_why(tk: Threadkeep) -> None:
    """If one request fills the window, it is recorded, comes back whole, and the window says why."""
    thread = await tk.thread("t")
    request = said("word " * 4_000)
    async with thread.turn([request]) as open_turn:
        window = await open_turn.window()
    assert list(window) == [request]
    assert window.trouble is not None
    assert "nothing to compact" in window.trouble


async def test_the_head_counts_against_the_window(tk: Threadkeep) -> None:
    """Instructions and tools take room that the history cannot have."""
    thread = await tk.thread("t")
    head = Head(system="x" * 4_000, tools=[{"type": "function", "name": "t" * 4_000}])
    async with thread.turn(turn(1), head=head) as open_turn:
        window = await open_turn.window()
    bare = await thread.window()
    assert window.pressure.tokens > bare.pressure.tokens + 2_000
    assert window.tokens == bare.tokens


async def test_real_usage_corrects_what_comes_after(tk: Threadkeep) -> None:
    """Twice the estimate once is twice the estimate next time."""
    thread = await tk.thread("t")
    async with thread.turn(turn(1)) as open_turn:
        window = await open_turn.window()
        assert window.pressure.tokens == window.tokens
        await open_turn.record([answered("Done.")], usage={"input_tokens": 2 * window.tokens, "output_tokens": 5})
    after = await thread.window()
    assert after.pressure.tokens == 2 * after.tokens


async def test_what_usage_taught_outlives_a_compaction(tk: Threadkeep) -> None:
    """A model whose tokens are smaller than we think does not get larger ones with a checkpoint."""
    thread = await tk.thread("t")
    await thread.record(turns(1, 6))
    before = await thread.window()
    await thread.record_usage(input_tokens=2 * before.tokens, output_tokens=1)
    await thread.compact(target="1")
    after = await thread.window()
    assert after.pressure.tokens == 2 * after.tokens


async def test_usage_of_a_turn_taken_back_teaches_nothing(tk: Threadkeep) -> None:
    """Rolled back, it is as if it had not been counted."""
    thread = await tk.thread("t")
    await thread.record(turn(1))
    await thread.record(turn(2))
    await thread.record_usage(input_tokens=50_000, output_tokens=1)
    await thread.rollback(turns=1)
    after = await thread.window()
    assert after.pressure.tokens == after.tokens


async def test_bad_input_records_nothing(tk: Threadkeep) -> None:
    """One bad item among good ones leaves the thread unchanged."""
    thread = await tk.thread("t")
    with pytest.raises(InvalidItem):
        await thread.record([said("good"), {"bad": "\ud83d"}])
    assert list(await thread.window()) == []


async def test_the_cache_key_outlives_compactions_and_is_a_forks_own(tk: Threadkeep) -> None:
    """A thread has one cache key; a fork has its own."""
    thread = await tk.thread("t")
    await thread.record(turns(1, 4))
    before = (await thread.window()).cache_key
    await thread.compact()
    assert (await thread.window()).cache_key == before
    assert (await (await thread.fork(new_id="c")).window()).cache_key != before
