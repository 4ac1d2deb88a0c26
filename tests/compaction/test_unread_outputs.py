"""A compaction in the middle of a turn keeps what tools returned and the model has not read: it would only ask again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import Json, Rollout, answered, call, output, said

from threadkeep import Config, Threadkeep
from threadkeep.threads import EntryKind

WINDOW = 100_000
FRONTIER = WINDOW // 10


def read(number: int, *, words: int) -> list[Json]:
    return [call(f"c{number}", f'{{"path":"part_{number}.py"}}'), output(f"c{number}", f"part {number}: " + "word " * words)]


def whole(rollout: Rollout) -> list[str]:
    """Return the ids of the calls whose outputs stand in the window as they were."""
    kept = [json.loads(entry.item.raw) for entry in rollout.history().entries if entry.kind is not EntryKind.STUB]
    return [item["call_id"] for item in kept if item["type"] == "function_call_output"]


@pytest.mark.anyio
async def test_a_long_read_is_still_there_after_the_compaction_it_causes(store_file: Path) -> None:
    """Eight long reads in one turn: the window that the eighth fills is compacted, and shows the eighth."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=WINDOW)) as tk:
        thread = await tk.thread("reading")
        shown = []
        async with thread.turn([said("Read all parts, then tell me which is longest.")]) as turn:
            for number in range(8):
                await turn.record(read(number, words=11_000))
                shown = [item for item in await turn.window() if item.get("type") == "function_call_output"]
        window = await thread.window()
    assert window.checkpoint is not None
    assert shown[-1] == read(7, words=11_000)[-1]


def test_outputs_of_calls_made_at_once_stay_as_far_as_there_is_room() -> None:
    """Ten reads of one answer are more than a window holds: the newest stay whole, the others become a line with a pointer."""
    earlier = [item for number in range(4) for item in read(number, words=3_000)]
    rollout = Rollout([said("Read all parts."), *earlier, answered("Now the rest.")])
    calls = [call(f"p{n}", f'{{"path":"part_{n}.py"}}') for n in range(10)]
    outputs = [output(f"p{n}", f"part {n}: " + "word " * 11_000) for n in range(10)]
    rollout.add([*calls, *outputs])
    rollout.compact(frontier_tokens=FRONTIER)
    kept = whole(rollout)
    assert kept == [f"p{n}" for n in range(10)][-len(kept) :]
    assert 4 <= len(kept) <= 7


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=4_000), min_size=1, max_size=6), st.sampled_from((2_000, 10_000, 25_000)))
def test_the_newest_output_is_whole_whenever_it_fits(sizes: list[int], frontier: int) -> None:
    """Whatever came before it, one output within seven frontiers stays as it was."""
    rollout = Rollout([said("Go on.")])
    for number, words in enumerate(sizes):
        rollout.add(read(number, words=words))
    rollout.compact(frontier_tokens=frontier)
    last = rollout.items[-1]
    window = [entry.item.raw for entry in rollout.history().entries]
    assert (last.body in window) or last.tokens > 7 * frontier


def test_what_the_model_has_read_may_go() -> None:
    """Once it has answered, an output is like any other."""
    rollout = Rollout([said("Read it."), *read(1, words=30_000), answered("Read."), said("And now?"), answered("Done.")])
    rollout.compact(frontier_tokens=2_000)
    assert whole(rollout) == []


def test_of_a_large_output_that_does_not_fit_beginning_and_end_stay() -> None:
    """The model sees how it began and how it ended, and where the whole of it is."""
    lines = "\n".join(f"line {number} of a very long listing" for number in range(20_000))
    rollout = Rollout([said("Read it."), call("big", '{"path":"big.py"}'), output("big", lines)])
    rollout.compact(frontier_tokens=2_000)
    [shown] = [json.loads(entry.item.raw)["output"] for entry in rollout.history().entries if entry.kind is EntryKind.STUB]
    assert shown.startswith("line 0 of a very long listing\nline 1 of")
    assert shown.endswith("line 19998 of a very long listing\nline 19999 of a very long listing")
    assert f" characters left out; in full at #{rollout.items[-1].ordinal} …]\n" in shown
    assert rollout.history().tokens <= 8 * 2_000
