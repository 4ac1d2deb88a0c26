"""The core in every dialect: what is recorded, compacted, undone, rolled back, forked, resumed and recalled."""

from __future__ import annotations

import pytest
from tests.client.every_dialect.script import arranged, check_window, demand, request, turn, turns

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction import Section
from threadkeep.errors import NothingToUndo
from threadkeep.items import ItemKind
from threadkeep.store import RecordKind
from threadkeep.testing.dialect_checks import DialectSamples

pytestmark = pytest.mark.anyio


async def played(tk: Threadkeep, samples: DialectSamples, last: int, *, name: str = "t") -> Thread:
    thread = await tk.thread(name, dialect=samples.dialect.name)
    for number in range(1, last + 1):
        await thread.record(turn(samples, number))
    return thread


async def test_what_is_recorded_is_the_window(tk: Threadkeep, samples: DialectSamples) -> None:
    """Before any compaction the provider gets every recorded item, unknown ones and images included."""
    thread = await played(tk, samples, 4)
    assert await check_window(thread, samples, states=0) == arranged(samples, turns(samples, 1, 4))
    items = [record.body for record in await thread.records() if record.kind is RecordKind.ITEM]
    assert items == [samples.dialect.parse(item).raw for item in turns(samples, 1, 4)]


async def test_a_compacted_window_is_well_formed_and_smaller(tk: Threadkeep, samples: DialectSamples) -> None:
    """Pairs, roles and thoughts hold together, there is one state, and what was kept has its own bytes."""
    thread = await played(tk, samples, 8)
    report = await thread.compact()
    window = await check_window(thread, samples)
    assert (await thread.window()).tokens == report.tokens_after < report.tokens_before
    assert len(window) < len(arranged(samples, turns(samples, 1, 8)))
    recorded = {samples.dialect.parse(item).raw for item in turns(samples, 1, 8)}
    kept = [entry for entry in (await thread.history()).entries if entry.kind == "keep"]
    assert {entry.item.raw for entry in kept} <= recorded
    assert (await tk.verify()).problems == ()


async def test_every_demand_is_in_force_word_for_word(tk: Threadkeep, samples: DialectSamples) -> None:
    """A rule from eight turns ago is in the window, and the audit finds nothing invented."""
    thread = await played(tk, samples, 8)
    report = await thread.compact()
    window = str(await check_window(thread, samples))
    assert [demand(number) for number in range(1, 9) if demand(number) not in window] == []
    assert report.audit.invented == ()


async def test_the_request_is_whole_and_last(tk: Threadkeep, samples: DialectSamples) -> None:
    """A request that nobody answered ends the window with the person's own bytes, images included."""
    thread = await played(tk, samples, 8)
    asked = turn(samples, 9)[:2]
    await thread.record(asked)
    await thread.compact(target="1")
    window = await check_window(thread, samples)
    history = await thread.history()
    assert history.items[-1] == samples.dialect.parse(asked[-1])
    last = samples.dialect.view(samples.dialect.parse(window[-1]))
    assert (last.said.endswith(request(9)), last.images) == (True, 1)


async def test_the_world_is_told_once_and_as_it_is(tk: Threadkeep, samples: DialectSamples) -> None:
    """Of eight descriptions of the host's world the newest is in view, and no older one."""
    thread = await played(tk, samples, 8)
    await thread.compact(target="1")
    window = str(await check_window(thread, samples))
    assert [number for number in range(1, 9) if f"cwd: /srv/part_{number}" in window] == [8]


async def test_a_compaction_while_calls_run_keeps_them_with_their_thought(tk: Threadkeep, samples: DialectSamples) -> None:
    """The outputs come later and find their calls; one of two is not enough to let go of them."""
    thread = await played(tk, samples, 8)
    calls = {"call_a": '{"path":"a"}', "call_b": '{"path":"b"}'}
    made = samples.calls(calls, thought="Both.")
    await thread.record([samples.person("Run both."), *made])
    await thread.compact(target="1")
    kept = (await thread.history()).items
    assert [item for item in map(samples.dialect.parse, made) if item not in kept] == []
    await thread.record(samples.outputs(dict.fromkeys(calls, "done")))
    await check_window(thread, samples)


async def test_undo_restores_the_exact_window(tk: Threadkeep, samples: DialectSamples) -> None:
    """Twice, and then there is nothing left to undo."""
    thread = await played(tk, samples, 6)
    first = list(await thread.window())
    await thread.compact()
    compacted = list(await thread.window())
    await thread.record(turns(samples, 7, 12))
    await thread.compact()
    await thread.undo()
    # What stood last may be merged with what follows it.
    assert list(await thread.window())[: len(compacted) - 1] == compacted[:-1]
    await thread.undo()
    assert list(await thread.window()) == arranged(samples, turns(samples, 1, 12))
    assert list(await thread.window())[: len(first) - 1] == first[:-1]
    with pytest.raises(NothingToUndo):
        await thread.undo()


async def test_rollback_goes_back_across_three_checkpoints(tk: Threadkeep, samples: DialectSamples) -> None:
    """Taking back eleven of thirteen turns with three compactions leaves the first two uncut, and the thread goes on."""
    thread = await played(tk, samples, 4)
    await thread.compact()
    for first in (5, 8, 11):
        await thread.record(turns(samples, first, first + 2))
        if first < 11:
            await thread.compact()
    await thread.compact(target="1")
    await thread.rollback(turns=11)
    assert await check_window(thread, samples, states=0) == arranged(samples, turns(samples, 1, 2))
    await thread.record(turns(samples, 20, 26))
    await thread.compact()
    await check_window(thread, samples)
    assert (await tk.verify()).problems == ()


async def test_forks_before_and_after_a_checkpoint(tk: Threadkeep, samples: DialectSamples) -> None:
    """A fork before a checkpoint sees the uncompacted history, one after it the compacted one; the parent is unchanged."""
    parent = await played(tk, samples, 6)
    await parent.compact()
    window = list(await parent.window())
    after = await parent.fork(new_id="after")
    before = await parent.fork(before_turn=3, new_id="before")
    assert list(await after.window()) == window
    assert await check_window(before, samples, states=0) == arranged(samples, turns(samples, 1, 2))
    await after.record(turns(samples, 7, 12))
    await after.compact()
    await check_window(after, samples)
    assert list(await parent.window()) == window
    assert (await tk.verify()).problems == ()


async def test_a_thread_resumes_after_reopening(store_location: str, samples: DialectSamples) -> None:
    """Dialect, window and state come from the records alone, and the next compaction builds on them."""
    config = Config(store=store_location, model_context_window=4_000)
    async with Threadkeep(config) as tk:
        thread = await played(tk, samples, 6)
        await thread.compact()
        expected = (list(await thread.window()), await thread.state())
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t")
        assert thread.dialect.name == samples.dialect.name
        assert (list(await thread.window()), await thread.state()) == expected
        await thread.record(turns(samples, 7, 12))
        await thread.compact()
        window = str(await check_window(thread, samples))
        assert [number for number in range(1, 13) if demand(number) not in window] == []


async def test_an_original_is_recalled(tk: Threadkeep, samples: DialectSamples) -> None:
    """An original is found by the pointer beside an entry and by its words; an output behind a stub comes back whole."""
    thread = await played(tk, samples, 8)
    await thread.compact()
    for entry in (await thread.state()).section(Section.ACTIVE):
        found = [(await thread.recall(str(source)))[0].text for source in entry.sources]
        assert [text for text in found if entry.text in text] != []
    assert "part_2.lock" in (await thread.recall("part_2.lock"))[0].text
    outputs = [
        record for record in await thread.records() if record.kind is RecordKind.ITEM and b"line of part 1\\n" in record.body
    ]
    [recalled] = await thread.recall(f"#{outputs[0].ordinal}")
    assert recalled.text.count("line of part 1") == 40


@pytest.mark.slow
async def test_thirty_compactions_stay_bounded(tk: Threadkeep, samples: DialectSamples) -> None:
    """Each window is well formed and bounded; what a tight one has no room for is counted, and a wider one tells it again."""
    thread = await tk.thread("t", dialect=samples.dialect.name)
    sizes: list[int] = []
    for number in range(1, 31):
        await thread.record(turns(samples, 2 * number - 1, 2 * number))
        await thread.compact(target="40%")
        await check_window(thread, samples)
        sizes.append((await thread.window()).tokens)
    assert max(sizes) <= 3_000
    state, window = await thread.state(), str(list(await thread.window()))
    untold = [number for number in range(1, 61) if demand(number) not in window]
    assert 0 < len(untold) <= len(state.left_out | state.brief)
    await thread.record(turns(samples, 61, 80))
    await thread.compact()
    window = str(await check_window(thread, samples))
    assert [number for number in range(1, 81) if demand(number) not in window] == []
    assert (await tk.verify()).problems == ()


async def test_unknown_items_are_kept_or_replaced_whole(tk: Threadkeep, samples: DialectSamples) -> None:
    """An unknown item is in the window with its bytes or not at all; recall finds it either way."""
    thread = await played(tk, samples, 7)
    strange = {**samples.unknown(), "x_unknown": {"z": [1.5, None]}}
    await thread.record([strange, samples.answer("Noted.")])
    await thread.compact()
    raw = samples.dialect.parse(strange).raw
    assert raw in [item.raw for item in (await thread.history()).items]
    await thread.record(turns(samples, 9, 20))
    await thread.compact(target="1")
    opaque = [item.raw for item in (await thread.history()).items if samples.dialect.view(item).kind is ItemKind.OPAQUE]
    assert raw not in opaque
    assert raw in [record.body for record in await thread.records()]
