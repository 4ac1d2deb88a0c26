"""What is erased while a model drafts does not come back with its draft."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.drafting.replies import block
from tests.parity.vocabulary import Speech, of_kind, play

from threadkeep import Thread, Threadkeep
from threadkeep.erasure.erase import erase, plan_erasure
from threadkeep.errors import StaleCheckpoint
from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.testing.scripted_model import Holds, ScriptedModel, says
from threadkeep.threads import is_failed_attempt
from threadkeep.threads.erasure_notes import ErasureNote
from threadkeep.threads.writer import make_rewrite_mark

pytestmark = pytest.mark.anyio

ROOM = 200_000
WORD = "Zanzibar"
RULE = f"The client is called {WORD} Holdings; never print it."


async def told(tk: Threadkeep, speech: Speech, name: str = "t") -> Thread:
    """A thread long enough to be compacted, whose first message holds the word."""
    thread = await tk.thread(name, dialect=speech.dialect)
    await thread.record([speech.said(RULE), speech.answered("I will not.")])
    await play(thread, speech, 1, 8)
    return thread


def answer(strategy: str) -> str:
    text = f"The user wants {WORD} Holdings kept private. Next: part 3."
    return text if strategy == "handoff" else block(handoff=text)


async def compact_while(thread: Thread, meanwhile: Callable[[], Awaitable[object]], *, strategy: str = "session") -> int | None:
    """Compact a thread and do something else while the model thinks; return the checkpoint."""
    asked, go = asyncio.Event(), asyncio.Event()

    def thinks(request: object) -> Holds:
        asked.set()
        return Holds(until=go, then=says(answer(strategy)))

    async with ScriptedModel([thinks], dialect=thread.dialect.name, window_tokens=ROOM) as model:
        compaction = asyncio.create_task(thread.compact(strategy=strategy, model=model))
        await asked.wait()
        try:
            await meanwhile()
        finally:
            go.set()
        return (await compaction).checkpoint


async def erase_the_word(tk: Threadkeep, name: str = "t") -> None:
    """Erase every item of a thread that holds the word, and what was made of it, as a user asks for it."""

    async def recompact(thread_id: str) -> object:
        return await (await tk.thread(thread_id)).compact(strategy="extractive")

    holding = [record.ordinal for record in await items_with_the_word(await tk.thread(name))]
    plan = await plan_erasure(tk.backend, name, holding)
    await erase(tk.backend, plan, reason="asked to", memories=tk.memory, recompact=recompact)


async def items_with_the_word(thread: Thread) -> list[Record]:
    return [record for record in await of_kind(thread, RecordKind.ITEM) if WORD.encode() in record.body]


async def where_the_word_is(thread: Thread) -> list[str]:
    """Return the kinds of the thread's own records that hold the word, and `window` where its window does."""
    kinds = [str(record.kind) for record in await thread.records() if WORD.encode() in record.body]
    return [*kinds, "window"] if WORD in str(list(await thread.window())) else kinds


@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_draft_of_what_was_erased_meanwhile_is_not_committed(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """The erasure holds: no record and no window has the word, and the next compaction succeeds without it."""
    thread = await told(tk, speech)
    with pytest.raises(StaleCheckpoint):
        await compact_while(thread, lambda: erase_the_word(tk), strategy=strategy)
    assert await where_the_word_is(thread) == []
    assert (await thread.compact(strategy="extractive")).checkpoint is not None
    assert await where_the_word_is(thread) == []


async def test_a_fork_does_not_keep_what_its_parent_erased_meanwhile(tk: Threadkeep, speech: Speech) -> None:
    """Nothing is written to the fork when a record that it shares is erased, so its tip alone would not tell.

    What the draft cost is written, and quotes nothing.
    """
    await told(tk, speech)
    child = await (await tk.thread("t")).fork()
    before = len(await child.records())
    with pytest.raises(StaleCheckpoint):
        await compact_while(child, lambda: erase_the_word(tk))
    (paid,) = (await child.records())[before:]
    assert (is_failed_attempt(paid), await where_the_word_is(child)) == (True, [])


async def test_an_erasure_that_is_noted_and_not_yet_done_counts(tk: Threadkeep, speech: Speech) -> None:
    """It is noted first: a checkpoint that came between the two would be in nobody's plan."""
    thread = await told(tk, speech)

    async def note_it() -> None:
        body = msgspec.json.encode(ErasureNote(ordinals=[2], asked=[2]))
        note = NewRecord(kind=RecordKind.NOTE, at_ms=0, turn=0, tokens=0, body=body)
        await tk.backend.store.append("t", [note], expected=(await tk.backend.store.get("t")).next)

    with pytest.raises(StaleCheckpoint):
        await compact_while(thread, note_it)
    assert await of_kind(thread, RecordKind.CHECKPOINT) == []


async def test_a_remark_erased_meanwhile_is_in_no_state(tk: Threadkeep, speech: Speech) -> None:
    """What a person noted beside the conversation is part of what a compaction is made of."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    await thread.note(RULE)
    (remark,) = [record.ordinal for record in await of_kind(thread, RecordKind.NOTE) if WORD.encode() in record.body]
    with pytest.raises(StaleCheckpoint):
        await compact_while(thread, lambda: tk.backend.store.erase("t", [remark], at_ms=1))
    assert await where_the_word_is(thread) == []


async def test_what_a_client_rewrote_may_be_erased_while_it_is_carried_over(tk: Threadkeep, speech: Speech) -> None:
    """A state taken over from the history before goes with the records it was made of."""
    thread = await told(tk, speech)
    await thread.compact(strategy="extractive")
    end = (await tk.backend.store.get("t")).next
    await tk.backend.store.append("t", [await make_rewrite_mark(tk.backend, "t", at=end, turn=0)], expected=end)
    await play(thread, speech, 11, 18)
    with pytest.raises(StaleCheckpoint):
        await compact_while(thread, lambda: erase_the_word(tk))
    assert await where_the_word_is(thread) == []


async def test_what_was_erased_before_stands_in_no_compactions_way(tk: Threadkeep, speech: Speech) -> None:
    """A placeholder for half of a call is what the draft saw; it is as true when the draft comes back."""
    thread = await told(tk, speech)
    output = next(record.ordinal for record in await of_kind(thread, RecordKind.ITEM) if b"line of part 8" in record.body)
    note = ErasureNote(ordinals=[output], asked=[output])
    body = msgspec.json.encode(note)
    made = NewRecord(kind=RecordKind.NOTE, at_ms=0, turn=0, tokens=0, body=body)
    await tk.backend.store.append("t", [made], expected=(await tk.backend.store.get("t")).next)
    await tk.backend.store.erase("t", [output], at_ms=1)
    other = await tk.thread("t")
    checkpoint = await compact_while(thread, lambda: other.record([speech.said("And part 9?")]))
    assert [record.ordinal for record in await of_kind(thread, RecordKind.CHECKPOINT)] == [checkpoint]
