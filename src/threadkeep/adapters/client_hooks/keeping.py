"""What happens when a client compacts: its transcript recorded, the thread compacted without a model, the state told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from threadkeep.adapters.client_hooks.called import HookCall
from threadkeep.adapters.client_hooks.clients import HookClient
from threadkeep.adapters.client_hooks.telling import told
from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction.order import Order
from threadkeep.errors import CompactionError, Conflict, NothingToUndo, OrdinalConflict, ThreadNotFound, UnreadableTranscript
from threadkeep.transfer.import_files import Importer, ImportReport
from threadkeep.transfer.imported_checkpoint import STRATEGY as IMPORTED

ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Which thread a transcript became, remembered in a folder: what is handed back must not wait for reading it again."""

    folder: Path

    def remember(self, transcript: Path, thread_id: str) -> None:
        """Write it down.

        Raises:
            OSError: The folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file(transcript).write_text(json.dumps({"thread": thread_id}))

    def recall(self, transcript: Path) -> str | None:
        """Return the thread, if one was written down."""
        try:
            found = json.loads(self._file(transcript).read_text())["thread"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, str) else None

    def _file(self, transcript: Path) -> Path:
        return self.folder / f"{blake2b(str(transcript).encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}.json"


async def keep(tk: Threadkeep, call: HookCall, *, client: HookClient, sessions: Sessions) -> Thread:
    """Record what a transcript adds and compact its thread; durable when it returns.

    A thread that is too short to compact, or that someone else compacts, is left as it is: its words are told as they stand.

    Raises:
        UnreadableTranscript: There is no such file, or no conversation in it.
        StoreError: It could not be written.
    """
    thread = await tk.find(await _recorded(tk, call, client=client))
    sessions.remember(call.transcript, thread.id)
    await _own_state_counts(thread)
    order = Order(strategy="extractive", trigger="manual" if call.by_person else "auto")
    try:
        await thread.carry_out(order)
    except (CompactionError, Conflict):
        # Too little to compact, another worker at it, a hook of the user's own: what is told is what the thread holds now.
        return thread
    return thread


async def hand_back(tk: Threadkeep, call: HookCall, *, client: HookClient, sessions: Sessions, recall: str) -> str:
    """Return what the client's model is told after the client compacted; nothing, where nothing was ever said.

    `recall` is the command that finds originals, without the thread's id.

    Raises:
        UnreadableTranscript: Nothing was recorded before, and there is nothing to record now.
        StoreError: The store could not be read.
    """
    known = sessions.recall(call.transcript)
    try:
        thread = await tk.find(known) if known is not None else None
    except ThreadNotFound:
        thread = None
    if thread is None:
        thread = await keep(tk, call, client=client, sessions=sessions)
    await _own_state_counts(thread)
    return told(await thread.history(), dialect=thread.dialect, thread_id=thread.id, recall=recall)


async def _recorded(tk: Threadkeep, call: HookCall, *, client: HookClient) -> str:
    """Record what is new in a transcript and return the id of its thread."""
    importer = Importer(tk.backend, form=client.form, growing=True)
    report = await _imported(importer, call.transcript, attempts=ATTEMPTS)
    ids = [thread.id for thread in report.threads if thread.items]
    if not ids:
        raise UnreadableTranscript(str(call.transcript), "it holds no conversation")
    # A file may hold conversations of sub-agents too; the session's own is called after it.
    return next((each for each in ids if call.session_id and each.startswith(call.session_id)), ids[0])


async def _imported(importer: Importer, transcript: Path, *, attempts: int) -> ImportReport:
    try:
        return await importer.run([transcript])
    except OrdinalConflict:
        # `threadkeep import --watch` was at it too; what it wrote is passed over.
        if attempts <= 1:
            raise
        return await _imported(importer, transcript, attempts=attempts - 1)


async def _own_state_counts(thread: Thread) -> None:
    """Take back the client's own compactions, which an import lays down as checkpoints.

    In this thread everything the transcript says is still at hand: a summary that a client made of it would be a worse
    beginning for the next state than the last one made here.
    """
    while True:
        checkpoint = (await thread.history()).checkpoint
        if checkpoint is None or checkpoint.strategy != IMPORTED:
            return
        try:
            await thread.undo()
        except NothingToUndo:
            return
