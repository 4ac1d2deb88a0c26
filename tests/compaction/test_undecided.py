"""Changes that nothing ties to what they change: the message stays behind the state, and has the last word.

Where there is no room for what users said in their own messages, that is: else all of them stay there (`test_quoting`).
"""

from __future__ import annotations

import pytest
from tests.compaction.reworded import AROUND, AT_HAND, CORRECTED, WITHDRAWN

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction.undecided import MESSAGES_KEPT
from threadkeep.thread import EntryKind

pytestmark = pytest.mark.anyio

WORK = "reading the next part of the file, nothing to report here " * 60
ROUNDS = 4
NO_QUOTES = Config(store="memory:", compact_user_message_tokens=0)


async def worked(thread: Thread, *said: str) -> None:
    """Let a person say things, each answered with work enough that it is compacted away."""
    for number, text in enumerate(said):
        await thread.record([{"role": "user", "content": text}, {"role": "assistant", "content": f"{number}: {WORK}"}])


async def places(thread: Thread, text: str) -> list[int]:
    """Where in the window a person's message says exactly this, but for its number; the state stands before all of them."""
    history = await thread.history()
    views = [thread.dialect.view(entry.item) for entry in history.entries]
    state = next(at for at, entry in enumerate(history.entries) if entry.kind is EntryKind.STATE)
    return [at - state for at, view in enumerate(views) if view.by_person and view.said.partition("\n\n[#")[0] == text]


@pytest.mark.parametrize(("older", "newer"), [(older, newer) for older, newer, _ in (*WITHDRAWN, *CORRECTED)])
async def test_what_was_said_never_stands_alone(older: str, newer: str) -> None:
    """After any number of compactions the change is beside it, or is a message behind the state that holds it."""
    async with Threadkeep(NO_QUOTES) as tk:
        thread = await tk.thread("t", dialect="chat")
        await worked(thread, *AROUND[:8], older, *AROUND[8:16], newer, *AROUND[16:])
        for number in range(ROUNDS):
            await thread.compact()
            await worked(thread, *(f"Go on with part {number}{letter}, please." for letter in "abcd"))
        entry = next(entry for entry in (await thread.state()).entries if entry.text == older)
        behind = await places(thread, newer)
    beside = entry.claim is not None and newer[:20] in entry.claim.text
    assert beside or (len(behind) == 1 and behind[0] > 0)


async def test_a_change_that_is_tied_to_what_it_changes_is_not_kept_twice() -> None:
    """It stands beside it in the state."""
    async with Threadkeep(NO_QUOTES) as tk:
        thread = await tk.thread("t", dialect="chat")
        await worked(thread, "The staging port is 8080.", *AROUND[:8], "The staging port is 9090 now, not 8080.", *AROUND[8:])
        await thread.compact()
        assert await places(thread, "The staging port is 9090 now, not 8080.") == []


async def test_orders_about_the_work_at_hand_are_not_kept() -> None:
    """They are in the state as everything a person said, and change nothing that was demanded."""
    async with Threadkeep(NO_QUOTES) as tk:
        thread = await tk.thread("t", dialect="chat")
        await worked(thread, *AROUND[:4], *AT_HAND, *AROUND[4:8])
        await thread.compact()
        kept = [order for order in AT_HAND if await places(thread, order)]
    assert len(kept) <= 1


async def test_only_the_newest_few_stay() -> None:
    """The window does not grow with every change of mind."""
    changes = [f"Forget what I said about topic {chr(97 + number) * 7}: not now." for number in range(MESSAGES_KEPT + 6)]
    async with Threadkeep(NO_QUOTES) as tk:
        thread = await tk.thread("t", dialect="chat")
        await worked(thread, *changes, *AROUND[:6])
        await thread.compact()
        kept = [change for change in changes if await places(thread, change)]
    assert kept == changes[-len(kept) :]
    assert 0 < len(kept) <= MESSAGES_KEPT


async def test_a_message_that_also_says_what_changed_since_does_not_stay() -> None:
    """Behind the state it would have the last word over what corrected it."""
    mixed = "Price lists belong in /mnt/cove/lists.\n\nForget what I said about ferrets: they stay."
    async with Threadkeep(NO_QUOTES) as tk:
        thread = await tk.thread("t", dialect="chat")
        await worked(thread, *AROUND[:6], mixed, *AROUND[6:12])
        await thread.compact()
        assert len(await places(thread, mixed)) == 1
        await worked(thread, "Price lists belong in /mnt/reef/lists now, not in /mnt/cove/lists.", *AROUND[12:20])
        await thread.compact()
        assert await places(thread, mixed) == []
