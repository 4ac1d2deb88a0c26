"""A compaction that fails, or has nothing to gain, costs neither the turn nor the thread anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.parity.vocabulary import STATE, Speech, config, context, crashed_copy, of_kind, play, said_in, seen, turn, turns

from threadkeep import Threadkeep
from threadkeep.compaction import trigger as making_room
from threadkeep.compaction.ledger import Section, Speaker
from threadkeep.errors import BadInput, CompactionRunning, NothingToCompact, UnknownStrategy
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000


async def take_lease(tk: Threadkeep, clock: ManualClock) -> None:
    """Let another worker be at it, for an hour."""
    assert await tk.backend.store.acquire("compact:t", holder="another", now_ms=clock.ms, ttl_ms=HOUR_MS)


async def test_input_is_on_disk_before_its_turn_compacts(
    tk: Threadkeep, store_file: Path, tmp_path: Path, speech: Speech
) -> None:
    """A process killed between the two leaves the input recorded, last, and nothing else changed."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 14)
    async with thread.turn([context(speech, "/src"), speech.said("Now the summary.")]) as begun:
        copy = crashed_copy(store_file, tmp_path / "after.db")
        assert (await begun.window()).checkpoint is not None
    async with Threadkeep(config(copy)) as again:
        resumed = await again.thread("t")
        assert await seen(resumed) == [*turns(speech, 1, 14), context(speech, "/src"), speech.said("Now the summary.")]


async def test_a_turn_whose_compaction_fails_goes_on_and_says_why(
    tk: Threadkeep, clock: ManualClock, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The input is in the window it gets, the trouble is named, and once the cause is gone the same turn compacts."""
    monkeypatch.setattr(making_room, "PATIENCE_S", 0.0)
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 14)
    await take_lease(tk, clock)
    async with thread.turn([speech.said("Now the summary.")]) as begun:
        window = await begun.window()
        assert window.trouble == str(CompactionRunning("t"))
        assert await seen(thread) == [*turns(speech, 1, 14), speech.said("Now the summary.")]
        clock.ms += HOUR_MS + 1
        assert (await begun.window()).trouble is None
        state, *told = await seen(thread)
        rest = [*turn(speech, 14), speech.said("Now the summary.")]
        quoted = told[: -len(rest)]
        assert (state, told[-len(rest) :]) == (STATE, rest)
        assert quoted == said_in(speech, *range(14 - len(quoted), 14)) != []


async def test_the_input_itself_counts_when_it_is_decided_whether_to_compact(tk: Threadkeep, speech: Speech) -> None:
    """A thread below its limit compacts because of what comes in, and what came in stays whole and last."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    assert not (await thread.window()).pressure.must_compact
    incoming = speech.said("Mind this listing. " + "row of the listing\n" * 300)
    async with thread.turn([incoming]) as begun:
        assert (await begun.window()).checkpoint is not None
    assert (await seen(thread))[-1] == incoming
    assert STATE in await seen(thread)


async def test_an_input_too_large_for_any_window_is_recorded_and_can_be_taken_back(tk: Threadkeep, speech: Speech) -> None:
    """It comes back whole with the trouble named; one rollback and the thread is what it was."""
    thread = await tk.thread("t", dialect=speech.dialect)
    huge = speech.said("word " * 4_000)
    async with thread.turn([huge]) as begun:
        window = await begun.window()
    assert await seen(thread) == [huge]
    assert window.trouble is not None
    assert await of_kind(thread, RecordKind.CHECKPOINT) == []
    await thread.rollback(turns=1)
    assert await seen(thread) == []


async def test_a_compaction_that_does_not_happen_leaves_no_record(tk: Threadkeep, clock: ManualClock, speech: Speech) -> None:
    """Refused, mistaken, rehearsed or beaten to it: the records are the same, one for one."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    await thread.compact()
    await thread.record([speech.said("Thanks.")])
    window, records = await seen(thread), await thread.records()
    with pytest.raises(NothingToCompact):
        await thread.compact()
    with pytest.raises(UnknownStrategy):
        await thread.compact(strategy="guess")
    with pytest.raises(BadInput):
        await thread.compact(target="rather small")
    await play(thread, speech, 5, 8)
    grown = await thread.records()
    assert (await thread.compact(dry_run=True)).checkpoint is None
    await take_lease(tk, clock)
    with pytest.raises(CompactionRunning):
        await thread.compact()
    assert await thread.records() == grown
    assert grown[: len(records)] == records
    assert await seen(thread) == [*window, *turns(speech, 5, 8)]


async def test_what_the_model_said_last_is_never_taken_for_a_summary(tk: Threadkeep, speech: Speech) -> None:
    """No answer becomes a person's words or an objective; an empty answer puts no older one in their place."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 3)
    await thread.record([speech.said("Never push to main."), speech.answered("Summary: push everything to main.")])
    await thread.record([speech.said("And now?"), speech.answered("")])
    await play(thread, speech, 5, 5)
    await thread.compact(target="1")
    state = await thread.state()
    binding = [entry for section in (Section.OBJECTIVE, Section.ACTIVE) for entry in state.section(section)]
    remembered = [entry.text for entry in binding if entry.speaker is Speaker.USER]
    asked = [f"Please look into part {number} of the parser." for number in (1, 2, 3, 5)]
    assert remembered == [*asked[:3], "Never push to main.", "And now?", asked[3]]
    assert {entry.speaker for entry in binding if "push everything" in entry.text} <= {Speaker.AGENT}


async def test_an_answer_stands_beside_the_request_it_answered_and_no_later_one(tk: Threadkeep, speech: Speech) -> None:
    """The handoff tells each turn with its own answer; a request without one gets none from an older turn."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 3)
    await thread.record([speech.answered("The answer of the first span."), speech.said("Read on without a word.")])
    for first in (10, 20):
        for number in range(first, first + 6):
            await thread.record([speech.call(f"x{number}"), speech.output(f"x{number}", f"row {number}\n" * 120)])
        await thread.compact()
        handoff = [entry.text for entry in (await thread.state()).section(Section.HANDOFF)]
        told = [text.partition(" — answered: ")[::2] for text in handoff if text.startswith("asked: ")]
        assert told[-1][0] == "asked: Please look into part 3 of the parser."
        assert told[-1][1].startswith("The answer of the first span.")
        assert [text for text in handoff if "Read on" in text or text.startswith("done so far: ")] == []


async def test_a_window_that_cannot_get_smaller_is_compacted_once_and_not_again_and_again(
    tk: Threadkeep, store_file: Path, speech: Speech
) -> None:
    """Over its limit for good, it compacts once and says so from then on, through a restart; growth arms it again."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "row of the listing " * 740), *turns(speech, 1, 4)])
    async with thread.turn([speech.said("Go on.")]) as begun:
        assert (await begun.window()).trouble is None
        for number in range(5):
            await begun.record([speech.call(f"x{number}"), speech.output(f"x{number}")])
            window = await begun.window()
            assert window.pressure.must_compact
            assert window.trouble is not None
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        async with resumed.turn([speech.said("And on.")]) as begun:
            assert (await begun.window()).trouble is not None
        assert len(await of_kind(resumed, RecordKind.CHECKPOINT)) == 1
        async with resumed.turn([*turns(speech, 5, 9), speech.said("Once more.")]) as begun:
            assert (await begun.window()).trouble is None
        assert len(await of_kind(resumed, RecordKind.CHECKPOINT)) == 2


async def test_many_calls_in_one_turn_compact_only_as_often_as_the_window_fills(tk: Threadkeep, speech: Speech) -> None:
    """Sixty outputs that would fill the window four times over take no more than eight checkpoints, each after real growth."""
    thread = await tk.thread("t", dialect=speech.dialect)
    async with thread.turn([speech.said("Read all sixty parts.")]) as begun:
        for number in range(60):
            await begun.record([speech.call(f"c{number}"), speech.output(f"c{number}", f"line of part {number}\n" * 60)])
            window = await begun.window()
            assert not window.pressure.must_compact
    assert 2 <= len(await of_kind(thread, RecordKind.CHECKPOINT)) <= 8
    assert speech.said("Read all sixty parts.") in await seen(thread)
