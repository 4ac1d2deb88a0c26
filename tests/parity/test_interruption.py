"""Turns that were broken off: marked by their host, or left with a call nobody will answer."""

from __future__ import annotations

import pytest
from tests.parity.vocabulary import STATE, WINDOW_TOKENS, Speech, aborted, context, of_kind, play, seen, turn, turns

from threadkeep import Threadkeep
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


async def test_a_mark_of_interruption_is_no_turn_and_goes_with_the_one_it_ended(tk: Threadkeep, speech: Speech) -> None:
    """The host's mark counts for nothing by itself; one rollback takes back the broken turn and its mark."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 1)
    broken = [*turn(speech, 2)[:3], aborted(speech)]
    await thread.record(broken[:3])
    await thread.record(broken[3:])
    await play(thread, speech, 3, 3)
    assert [record.turn for record in await of_kind(thread, RecordKind.TURN)] == [1, 2, 3]
    await thread.rollback(turns=1)
    assert await seen(thread) == [*turn(speech, 1), *broken]
    await thread.rollback(turns=1)
    assert await seen(thread) == turn(speech, 1)


async def test_a_mark_that_ends_no_turn_disturbs_none(tk: Threadkeep, speech: Speech) -> None:
    """Late, doubled or before anything was said, it neither opens a turn nor hides the host context of the next."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([aborted(speech)])
    await thread.record([context(speech, "/src"), *turn(speech, 1)])
    await thread.record([aborted(speech), aborted(speech)])
    await play(thread, speech, 2, 2)
    await thread.rollback(turns=2)
    assert await seen(thread) == [aborted(speech)]


async def test_a_compaction_after_an_interrupted_turn_keeps_context_and_request(tk: Threadkeep, speech: Speech) -> None:
    """The newest host context and the newest request are in the window; what the broken turn asked for is in the state."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/old"), *turns(speech, 1, 3)])
    await thread.record([context(speech, "/new"), speech.said("Never touch the lexer."), *turn(speech, 4)[1:3], aborted(speech)])
    await thread.record([speech.said("Go on with part 5.")])
    await thread.compact(target="1")
    assert await seen(thread) == [context(speech, "/new"), STATE, speech.said("Go on with part 5.")]
    assert "Never touch the lexer." in [entry.text for entry in (await thread.state()).entries]


async def test_a_call_under_way_outlives_a_compaction_and_takes_its_output(tk: Threadkeep, speech: Speech) -> None:
    """The pair is whole when the output comes, however small a window was asked for."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 3)
    await thread.record(turn(speech, 4)[:2])
    await thread.compact(target="1")
    assert await seen(thread) == [STATE, *turn(speech, 4)[:2]]
    await thread.record(turn(speech, 4)[2:])
    assert await seen(thread) == [STATE, *turn(speech, 4)]


async def test_a_call_nobody_answered_does_not_stop_later_compactions_from_shrinking(tk: Threadkeep, speech: Speech) -> None:
    """Turns after the broken one are compacted away as ever: the window stays far below its limit."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([*turn(speech, 1)[:2], aborted(speech)])
    for first in (2, 12, 22):
        await play(thread, speech, first, first + 9)
        await thread.compact()
        assert (await thread.window()).tokens < WINDOW_TOKENS // 2
