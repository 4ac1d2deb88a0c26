"""What a host says about its world: the newest version counts, once, for as long as the turn that brought it does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.parity.vocabulary import STATE, Speech, config, context, of_kind, permissions, play, said_in, seen, turn, turns

from threadkeep import Threadkeep
from threadkeep.errors import InvalidTarget
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


async def test_settings_of_a_turn_taken_back_vanish_and_are_told_once_more_later(tk: Threadkeep, speech: Speech) -> None:
    """The change goes with its turn; told again with the next one it stands in the window once."""
    thread = await tk.thread("t", dialect=speech.dialect)
    first = [permissions(speech, "ask"), context(speech, "/old"), *turn(speech, 1)]
    await thread.record(first)
    await thread.record([permissions(speech, "never"), context(speech, "/new"), *turn(speech, 2)])
    await thread.rollback(turns=1)
    assert await seen(thread) == first
    third = [permissions(speech, "never"), context(speech, "/new"), *turn(speech, 3)]
    await thread.record(third)
    assert await seen(thread) == [*first, *third]


async def test_after_a_rollback_the_older_version_is_the_one_a_compaction_keeps(tk: Threadkeep, speech: Speech) -> None:
    """A version that was taken back is pinned by no later checkpoint, even if an earlier one had pinned it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([permissions(speech, "ask"), context(speech, "/old"), *turns(speech, 1, 2)])
    await thread.record([permissions(speech, "never"), context(speech, "/new"), *turn(speech, 3)])
    await thread.compact(target="1")
    await thread.rollback(turns=1)
    await play(thread, speech, 4, 5)
    await thread.compact()
    assert await seen(thread) == [
        permissions(speech, "ask"),
        context(speech, "/old"),
        STATE,
        *said_in(speech, 2, 4),
        *turn(speech, 5),
    ]


async def test_settings_recorded_by_themselves_right_before_a_turn_go_with_it(tk: Threadkeep, speech: Speech) -> None:
    """It makes no difference whether the host's message and the person's were recorded together or one after the other."""
    thread = await tk.thread("t", dialect=speech.dialect)
    first = [context(speech, "/old"), *turn(speech, 1)]
    await thread.record(first)
    await thread.record([context(speech, "/new")])
    await thread.record(turn(speech, 2))
    await thread.rollback(turns=1)
    assert await seen(thread) == first


async def test_after_a_compaction_the_newest_version_of_each_section_is_there_once(
    tk: Threadkeep, store_file: Path, speech: Speech
) -> None:
    """Older versions are gone; sections that were told once stay, whatever their age; a restart changes nothing."""
    thread = await tk.thread("t", dialect=speech.dialect)
    rules = speech.said("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nRun the linter.\n</INSTRUCTIONS>")
    await thread.record([rules, context(speech, "/one"), *turn(speech, 1)])
    await thread.record([context(speech, "/two"), *turn(speech, 2)])
    await thread.record([context(speech, "/three"), *turn(speech, 3)])
    await play(thread, speech, 4, 5)
    await thread.compact()
    expected = [rules, context(speech, "/three"), STATE, *said_in(speech, 2, 3, 4), *turn(speech, 5)]
    assert await seen(thread) == expected
    async with Threadkeep(config(store_file)) as again:
        assert await seen(await again.thread("t")) == expected


async def test_host_context_stays_in_view_through_many_compactions(tk: Threadkeep, store_file: Path, speech: Speech) -> None:
    """Never lost, never doubled, and given up for a newer version as soon as there is one."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/old"), *turn(speech, 1)])
    for number in range(2, 8):
        await play(thread, speech, number * 10, number * 10 + 3)
        await thread.compact()
        first, state, *said, asked, call, output, answer = await seen(thread)
        assert [first, state] == [context(speech, "/old"), STATE]
        assert [asked, call, output, answer] == turn(speech, number * 10 + 3)
        numbers = [each for ten in range(20, 10 * number + 1, 10) for each in range(ten, ten + 4)]
        assert said == said_in(speech, *numbers)[-1 - len(said) : -1]
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        await resumed.record([context(speech, "/new"), *turns(speech, 90, 92)])
        await resumed.compact()
        first, state, *_, asked, call, output, answer = await seen(resumed)
        assert [first, state, asked, call, output, answer] == [context(speech, "/new"), STATE, *turn(speech, 92)]


async def test_context_told_after_a_compaction_in_the_same_turn_counts_from_then_on(tk: Threadkeep, speech: Speech) -> None:
    """It stands after the older version at first, and alone after the next compaction."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/old"), *turns(speech, 1, 2), turn(speech, 3)[0]])
    await thread.compact(target="1")
    await thread.record([context(speech, "/new"), *turn(speech, 3)[1:]])
    asked, *rest = turn(speech, 3)
    assert await seen(thread) == [context(speech, "/old"), STATE, asked, context(speech, "/new"), *rest]
    await play(thread, speech, 4, 6)
    await thread.compact()
    assert await seen(thread) == [context(speech, "/new"), STATE, *said_in(speech, 2, 3, 4, 5), *turn(speech, 6)]


async def test_host_context_alone_opens_no_turn(tk: Threadkeep, speech: Speech) -> None:
    """A thread that heard only its host has no turn to take back or to fork at, and no title."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([permissions(speech, "ask"), context(speech, "/src")])
    assert await of_kind(thread, RecordKind.TURN) == []
    with pytest.raises(InvalidTarget):
        await thread.rollback(turns=1)
    with pytest.raises(InvalidTarget):
        await thread.fork(before_turn=1)
    assert [(summary.title, summary.turns) for summary in await tk.threads()] == [("", 0)]
    assert await seen(thread) == [permissions(speech, "ask"), context(speech, "/src")]


async def test_a_fork_has_the_context_of_the_place_it_begins_at(tk: Threadkeep, speech: Speech) -> None:
    """Before the turn that changed it, the older version; after it, the newer; each goes on by itself."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/old"), *turns(speech, 1, 3)])
    await thread.record([context(speech, "/new"), *turn(speech, 4)])
    before, after = await thread.fork(before_turn=4, new_id="before"), await thread.fork(new_id="after")
    for fork in (before, after):
        await play(fork, speech, 8, 9)
        await fork.compact()
    assert await seen(before) == [context(speech, "/old"), STATE, *said_in(speech, 2, 3, 8), *turn(speech, 9)]
    assert await seen(after) == [context(speech, "/new"), STATE, *said_in(speech, 2, 3, 4, 8), *turn(speech, 9)]
