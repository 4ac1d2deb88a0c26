"""Hooks that Codex and Claude Code run around their own compaction, for people who want no gateway.

Before a client compacts, its transcript is recorded as a thread and the thread is compacted without a model. Afterwards the
client gets the session state as context of its next request. `threadkeep setup CLIENT --hooks` writes the settings, which call
`threadkeep hook run`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.engine import remember
from threadkeep.compaction.state_text import neutralise, render_state
from threadkeep.dialects import Dialect
from threadkeep.errors import (
    CompactionError,
    Conflict,
    InvalidArgument,
    NothingToUndo,
    ThreadNotFound,
    UnreadableTranscript,
)
from threadkeep.threads import EntryKind, History
from threadkeep.transfer.import_formats import Format
from threadkeep.transfer.importer import Importer
from threadkeep.transfer.thread_builder import STRATEGY as IMPORTED

# A client's description of an event is short.
LARGEST_EVENT = 1 << 20
# The newest request is quoted whole up to this length; a longer paste would push the state out of the client's limit.
QUOTED_CHARS = 4_000
REQUEST = "The user's newest message, word for word:"

EventKind = Literal["PreCompact", "SessionStart", "other"]


class ClientEvent(msgspec.Struct, frozen=True):
    """An event, by the fields that both clients send."""

    hook_event_name: str
    transcript_path: str | None = None
    session_id: str = ""
    trigger: str = ""
    source: str = ""

    @property
    def kind(self) -> EventKind:
        if self.hook_event_name == "PreCompact":
            return "PreCompact"
        return "SessionStart" if self.hook_event_name == "SessionStart" and self.source == "compact" else "other"

    @property
    def transcript(self) -> Path:
        return Path(self.transcript_path or "")


def parse_event(body: bytes) -> ClientEvent:
    """Return the event that a client describes.

    Raises:
        InvalidArgument: It is not an event, or names no transcript, as for a session that the client does not store.
    """
    try:
        event = msgspec.json.decode(body, type=ClientEvent)
    except msgspec.MsgspecError as error:
        raise InvalidArgument("event", f"this is not a hook event: {error}; give the JSON that the client sends") from error
    if not event.transcript_path:
        text = f"{event.hook_event_name} names no transcript, so there is nothing to record; let the client store its sessions"
        raise InvalidArgument("transcript_path", text)
    return event


def render_context(text: str) -> str:
    """Return the output that gives `text` to the model."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}, ensure_ascii=False)


def render_warning(text: str) -> str:
    """Return the output that warns the user and lets the client continue."""
    return json.dumps({"systemMessage": text}, ensure_ascii=False)


def split_part(text: str, part: int, *, limit_bytes: int, parts: int, rest: str) -> str | None:
    """Return part `part` (from 1) of a text that is sent in at most `parts` parts; None if there are fewer.

    Each part fits `limit_bytes` and ends between lines, or else between words. If all parts together do not hold the text, the
    last one ends with `rest`, which says where the remainder is.
    """
    pieces = _split_text(text, limit_bytes=limit_bytes - len(rest.encode()) - 128)
    if part > min(len(pieces), parts):
        return None
    piece = pieces[part - 1]
    if part == parts < len(pieces):
        piece = f"{piece}\n{rest}"
    if len(pieces) == 1:
        return piece
    return f"[session state, part {part} of {min(len(pieces), parts)}; they may arrive in any order]\n{piece}"


def _split_text(text: str, *, limit_bytes: int) -> list[str]:
    pieces: list[str] = []
    while text:
        head = text.encode()[:limit_bytes].decode(errors="ignore")
        if len(head) < len(text):
            head = head[: head.rfind("\n") + 1 or head.rfind(" ") + 1 or len(head)]
        pieces.append(head)
        text = text[len(head) :]
    return pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadIndex:
    """A folder that remembers the thread of each transcript, so that it need not be imported again to answer."""

    folder: Path

    def write(self, transcript: Path, thread_id: str) -> None:
        """Remember a transcript's thread.

        Raises:
            OSError: The folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._find_file(transcript).write_text(json.dumps({"thread": thread_id}))

    def read(self, transcript: Path) -> str | None:
        """Return a transcript's thread, if it is known."""
        try:
            found = json.loads(self._find_file(transcript).read_text())["thread"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, str) else None

    def _find_file(self, transcript: Path) -> Path:
        return self.folder / f"{blake2b(str(transcript).encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}.json"


async def record_session(tk: Threadkeep, event: ClientEvent, *, form: Format, index: ThreadIndex) -> Thread:
    """Record what is new in a transcript and compact its thread. Durable when it returns.

    A thread that is too short to compact, or that another process compacts, stays as it is.

    Raises:
        UnreadableTranscript: There is no such file, or no conversation in it.
        StoreError: The store cannot be written.
    """
    thread = await tk.find(await _import_transcript(tk, event, form=form))
    index.write(event.transcript, thread.id)
    await _undo_client_checkpoints(thread)
    try:
        await thread.carry_out(Order(strategy="extractive", trigger="manual" if event.trigger == "manual" else "auto"))
    except (CompactionError, Conflict):
        return thread
    return thread


async def describe_session(tk: Threadkeep, event: ClientEvent, *, form: Format, index: ThreadIndex, recall: str) -> str:
    """Return what the model is told after its client compacted; empty if the session is empty.

    `recall` is the command that finds originals, without the thread's id.

    Raises:
        UnreadableTranscript: Nothing was recorded before, and there is nothing to record now.
        StoreError: The store cannot be read.
    """
    known = index.read(event.transcript)
    try:
        thread = await tk.find(known) if known is not None else None
    except ThreadNotFound:
        thread = None
    if thread is None:
        thread = await record_session(tk, event, form=form, index=index)
    await _undo_client_checkpoints(thread)
    return render_session(await thread.history(), dialect=thread.dialect, thread_id=thread.id, recall=recall)


async def _import_transcript(tk: Threadkeep, event: ClientEvent, *, form: Format) -> str:
    """Import what is new in a transcript and return the id of its thread."""
    importer = Importer(tk.backend, form=form, growing=True)
    report = await importer.run([event.transcript])
    ids = [thread.id for thread in report.threads if thread.items]
    if not ids:
        raise UnreadableTranscript(str(event.transcript), "it holds no conversation")
    # A file may also hold sub-agents' conversations; the session's own has the session's id.
    return next((each for each in ids if event.session_id and each.startswith(event.session_id)), ids[0])


async def _undo_client_checkpoints(thread: Thread) -> None:
    """Undo the client's own compactions, which an import records as checkpoints.

    The thread still has everything that the client summarised, so its own state is a better start than that summary.
    """
    while True:
        checkpoint = (await thread.history()).checkpoint
        if checkpoint is None or checkpoint.strategy != IMPORTED:
            return
        try:
            await thread.undo()
        except NothingToUndo:
            return


def render_session(history: History, *, dialect: Dialect, thread_id: str, recall: str) -> str:
    """Return the state of a whole window, the newest message of the user, and the command that finds the rest; pure.

    The state covers every item of the window: our own compactions keep the newest messages beside the state, but a client may
    keep none of them. Empty if nothing was said.
    """
    ledger = remember(history, dialect=dialect).ledger
    if not ledger.entries:
        return ""
    parts = [render_state(ledger, whole=True)]
    messages = [(entry, dialect.view(entry.item)) for entry in history.said]
    spoken = [(entry, view.said) for entry, view in messages if view.by_person and view.said.strip()]
    if spoken and spoken[-1][0].kind is not EntryKind.STUB:
        entry, said = spoken[-1]
        text = neutralise(said)
        quoted = text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]} […cut, whole in the record]"
        parts.append(f"{REQUEST}\n{quoted}{f' (#{entry.source.ordinal})' if entry.source is not None else ''}")
    parts.append(f"`{recall} {thread_id} WORDS` finds originals by what was said, `{recall} {thread_id} '#N'` the record N.")
    return "\n\n".join(parts)
