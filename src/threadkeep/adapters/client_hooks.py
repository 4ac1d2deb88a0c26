"""What happens when a client compacts: its transcript recorded, the thread compacted without a model, the state told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction import Ledger
from threadkeep.compaction.engine import remembered
from threadkeep.compaction.order import Order
from threadkeep.compaction.plan import Seen
from threadkeep.compaction.state_text import neutralise, render_state
from threadkeep.dialects import Dialect
from threadkeep.errors import (
    BadInput,
    CompactionError,
    Conflict,
    NothingToUndo,
    OrdinalConflict,
    ThreadNotFound,
    UnreadableTranscript,
)
from threadkeep.threads import EntryKind, History
from threadkeep.transfer.formats import Format
from threadkeep.transfer.importer import Importer, ImportReport
from threadkeep.transfer.thread_builder import STRATEGY as IMPORTED

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


async def keep(tk: Threadkeep, call: HookCall, *, form: Format, sessions: Sessions) -> Thread:
    """Record what a transcript adds and compact its thread; durable when it returns.

    A thread that is too short to compact, or that someone else compacts, is left as it is: its words are told as they stand.

    Raises:
        UnreadableTranscript: There is no such file, or no conversation in it.
        StoreError: It could not be written.
    """
    thread = await tk.find(await _recorded(tk, call, form=form))
    sessions.remember(call.transcript, thread.id)
    await _own_state_counts(thread)
    order = Order(strategy="extractive", trigger="manual" if call.by_person else "auto")
    try:
        await thread.carry_out(order)
    except (CompactionError, Conflict):
        # Too little to compact, another worker at it, a hook of the user's own: what is told is what the thread holds now.
        return thread
    return thread


async def hand_back(tk: Threadkeep, call: HookCall, *, form: Format, sessions: Sessions, recall: str) -> str:
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
        thread = await keep(tk, call, form=form, sessions=sessions)
    await _own_state_counts(thread)
    return told(await thread.history(), dialect=thread.dialect, thread_id=thread.id, recall=recall)


async def _recorded(tk: Threadkeep, call: HookCall, *, form: Format) -> str:
    """Record what is new in a transcript and return the id of its thread."""
    importer = Importer(tk.backend, form=form, growing=True)
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


# A client's own words about an event are short; more is no event.
LARGEST_CALL = 1 << 20

Event = Literal["PreCompact", "SessionStart", "other"]


class _Payload(msgspec.Struct):
    """What both clients send with every event, and what tells the events apart."""

    hook_event_name: str
    transcript_path: str | None = None
    session_id: str = ""
    trigger: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """An event, and the transcript it is about."""

    event: Event
    transcript: Path
    session_id: str
    by_person: bool


def read_call(body: bytes) -> HookCall:
    """Return what a client said.

    Raises:
        BadInput: It is no event, or names no transcript; a session that is kept nowhere has none.
    """
    try:
        payload = msgspec.json.decode(body, type=_Payload)
    except msgspec.MsgspecError as error:
        raise BadInput(f"this is no hook event: {error}") from error
    if not payload.transcript_path:
        raise BadInput(f"{payload.hook_event_name} names no transcript, so there is nothing to record")
    event: Event = "other"
    if payload.hook_event_name == "PreCompact":
        event = "PreCompact"
    elif payload.hook_event_name == "SessionStart" and payload.source == "compact":
        event = "SessionStart"
    return HookCall(
        event=event,
        transcript=Path(payload.transcript_path),
        session_id=payload.session_id,
        by_person=payload.trigger == "manual",
    )


def context_answer(text: str) -> str:
    """Return the answer that puts `text` before the model."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}, ensure_ascii=False)


def trouble_answer(text: str) -> str:
    """Return the answer that tells a person something, and lets everything go on."""
    return json.dumps({"systemMessage": text}, ensure_ascii=False)


def part_of(text: str, part: int, *, limit_bytes: int, parts: int, rest: str) -> str | None:
    """Return part `part` (from 1) of a text that is told in several, each within `limit_bytes`; None where it ends before.

    Parts end between lines where they can, else between words. One that is not the only one says which it is; where all of them
    together do not hold the text, the last ends with `rest`, which says where the remainder is.
    """
    pieces = _pieces(text, limit_bytes=limit_bytes - len(rest.encode()) - 128)
    if part > min(len(pieces), parts):
        return None
    piece = pieces[part - 1]
    if part == parts < len(pieces):
        piece = f"{piece}\n{rest}"
    if len(pieces) == 1:
        return piece
    return f"[session state, part {part} of {min(len(pieces), parts)}; they may arrive in any order]\n{piece}"


def _pieces(text: str, *, limit_bytes: int) -> list[str]:
    """Return the text in stretches that fit, each as long as it can be; one behind another they are the text."""
    pieces: list[str] = []
    while text:
        head = text.encode()[:limit_bytes].decode(errors="ignore")
        if len(head) < len(text):
            head = head[: head.rfind("\n") + 1 or head.rfind(" ") + 1 or len(head)]
        pieces.append(head)
        text = text[len(head) :]
    return pieces


# The request is quoted whole up to this; a log pasted into it would push out what was demanded.
QUOTED_CHARS = 4_000
REQUEST = "The user's newest message, word for word:"


def told(history: History, *, dialect: Dialect, thread_id: str, recall: str) -> str:
    """Return the session state of everything a window holds, the newest message of the user, and how to find the rest.

    Nothing where no one has said anything. `recall` is the command that finds originals, without the thread's id.
    """
    ledger = whole_state(history, dialect=dialect)
    if not ledger.entries:
        return ""
    spoken = [seen for seen in _seen(history, dialect=dialect) if seen.view.by_person and seen.view.said.strip()]
    newest = spoken[-1] if spoken and spoken[-1].entry.kind is not EntryKind.STUB else None
    return "\n\n".join(
        (
            render_state(ledger, whole=True),
            *((f"{REQUEST}\n{_quoted(newest)}",) if newest else ()),
            f"`{recall} {thread_id} WORDS` finds originals by what was said, `{recall} {thread_id} '#N'` the record N.",
        )
    )


def whole_state(history: History, *, dialect: Dialect) -> Ledger:
    """Return the ledger that a window comes to when nothing of it stays.

    A compaction of ours keeps the newest messages as they are, outside of its state. A client's compaction may keep none of
    them, so that they must be in the state that is handed to it.
    """
    return remembered(history, dialect=dialect)


def _seen(history: History, *, dialect: Dialect) -> list[Seen]:
    return [Seen(entry=entry, view=dialect.view(entry.item)) for entry in history.said]


def _quoted(seen: Seen) -> str:
    flat = neutralise(seen.view.said)
    place = f" (#{seen.entry.source.ordinal})" if seen.entry.source is not None else ""
    return f"{flat if len(flat) <= QUOTED_CHARS else f'{flat[:QUOTED_CHARS]} […cut, whole in the record]'}{place}"
