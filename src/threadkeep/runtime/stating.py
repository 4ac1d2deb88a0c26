"""A thread's session state in hand: read it, pin what must stay in it, note what it should know."""

from __future__ import annotations

from threadkeep.compaction import Ledger, ledger_of
from threadkeep.runtime.living import LivingThread
from threadkeep.runtime.reading import live_path, load_history
from threadkeep.runtime.remarking import Remarked, pin_entry, take_note, unpin_entry


class StatefulThread(LivingThread):
    """What a thread remembers, and what people have to say about that."""

    async def state(self) -> Ledger:
        """Return the session state: the newest checkpoint's, with what was pinned and noted since."""
        store = self._backend.store
        return ledger_of(await load_history(store, await live_path(store, self.id)))

    async def pin(self, entry_id: str) -> Remarked:
        """Keep an entry of the session state: no draft changes or sets it aside, and no budget archives it, until it is unpinned.

        Durable when it returns, in `state()` at once, and with every later checkpoint. Only people pin: nothing in an item does.
        What is pinned already stays so, and nothing is recorded. A rollback to before it takes the pin back with the rest.

        Raises:
            EntryNotFound: There is no such entry; the error says which there are.
        """
        self._tip = None
        return await pin_entry(self._backend, self.id, entry_id)

    async def unpin(self, entry_id: str) -> Remarked:
        """Let go of a pinned entry; it stays, and is treated like any other from now on. See `pin`."""
        self._tip = None
        return await unpin_entry(self._backend, self.id, entry_id)

    async def note(self, text: str, *, pinned: bool = False) -> Remarked:
        """Write down a person's own statement about the work; it binds like what they say in the conversation.

        Durable when it returns, and in `state()` at once. The window does not change before the next compaction, because what
        is sent between two checkpoints only grows: from that one on the note is in its state block. Who must be heard at
        once says it in the conversation.

        Raises:
            BadInput: It is empty or too long.
        """
        self._tip = None
        return await take_note(self._backend, self.id, text, pinned=pinned)

    async def note_by_agent(self, text: str) -> Remarked:
        """Write down what the agent wants to remember; see `note`.

        It is a model's statement, marked as one, and binds nobody: it cannot be pinned by whoever wrote it, gives way to what
        users say, and goes before their words where the budget is short.

        Raises:
            BadInput: It is empty or too long.
        """
        self._tip = None
        return await take_note(self._backend, self.id, text, by_agent=True)
