"""Journals of Claude Code transcripts: every entry as it was appended, and the conversation that can be made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from threadkeep.client import Threadkeep
from threadkeep.dialects import MESSAGES
from threadkeep.errors import InvalidItem, ThreadNotFound
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow
from threadkeep.threads.reader import live_path
from threadkeep.transfer.claude_code import ClaudeCodeReader
from threadkeep.transfer.steps import Lane, Step, Trouble
from threadkeep.transfer.thread_builder import Landing

DIALECT = MESSAGES.name
PREFIX = "claude"
# The record of a journal that says whose it is; entries come after it.
NAMED_AT = 1

Key = Mapping[str, Any]
"""What a transcript is called: `project_key`, `session_id`, and `subpath` for a sub-agent's."""


class Conversation:
    """What the importer makes of one journal."""

    def __init__(self, tk: Threadkeep, *, next_ordinal: int) -> None:
        self.next = next_ordinal
        self._uuids: set[str] = set()
        self._backend = tk.backend
        self._reader = ClaudeCodeReader()
        self._landings: dict[str, Landing] = {}
        self._current: Landing | None = None

    @property
    def thread_id(self) -> str | None:
        """The thread of the transcript itself, as against those of the sub-agents in it."""
        begun = (landing.thread_id for landing in self._landings.values() if landing.begun)
        return next(begun, None)

    def unknown(self, rows: Sequence[bytes]) -> list[bytes]:
        """Return the rows that are not there yet, as far as they have a name to be known by; of two with one name, the first."""
        fresh: dict[object, bytes] = {}
        for row in rows:
            uuid = _uuid_in(row)
            if uuid is None or uuid not in self._uuids:
                fresh.setdefault(object() if uuid is None else uuid, row)
        return list(fresh.values())

    async def take(self, rows: Sequence[bytes]) -> None:
        """Put rows into the threads they belong to. Durable when it returns."""
        self._uuids |= {uuid for row in rows if (uuid := _uuid_in(row)) is not None}
        for row in rows:
            await self._lay_down(self._reader.feed(row))
        await self._lay_down(self._reader.finish())
        for landing in self._landings.values():
            await landing.finish()

    async def _lay_down(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Lane):
                self._current = self._landings.setdefault(step.thread_id, Landing(self._backend, step))
            elif self._current is not None and not isinstance(step, Trouble):
                await self._current.take(step)


def journal_id(key: Key) -> str:
    """Return the id of the thread that holds a transcript's entries."""
    return f"{journal_prefix(key['project_key'], key['session_id'])}{_digest(key.get('subpath', ''))}"


def journal_prefix(project_key: str, session_id: str | None = None) -> str:
    """Return what the ids of all journals of a project, or of one of its sessions, begin with."""
    project = f"{PREFIX}-{_digest(project_key)}-"
    return project if session_id is None else f"{project}{_digest(session_id)}-"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def written_row(entry: object) -> bytes:
    """Return an entry as JSON that also carries halves of surrogate pairs, which clients cut out of long outputs.

    Raises:
        InvalidItem: It is no JSON object, or holds what JSON cannot say.
    """
    if not isinstance(entry, dict):
        raise InvalidItem(dialect=DIALECT, reason="an entry of a transcript is a JSON object")
    try:
        return json.dumps(entry, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidItem(dialect=DIALECT, reason=str(error)) from error


def read_row(row: bytes) -> dict[str, Any]:
    """Return the entry a row was written from."""
    entry: dict[str, Any] = json.loads(row)
    return entry


def _uuid_in(row: bytes) -> str | None:
    uuid = read_row(row).get("uuid")
    return uuid if isinstance(uuid, str) else None


async def begin_journal(tk: Threadkeep, key: Key) -> None:
    """Create the journal where it is not there: put away, and with its key as its first note."""
    name = journal_id(key)
    try:
        await tk.backend.store.get(name)
    except ThreadNotFound:
        thread = await tk.thread(name, dialect=DIALECT)
        await note_down(tk, name, [written_row(dict(key))], expected=NAMED_AT)
        await thread.archive()


async def note_down(tk: Threadkeep, name: str, bodies: Sequence[bytes], *, expected: int) -> int:
    """Append rows to a journal as one unit and return its next ordinal. Durable when it returns.

    Raises:
        OrdinalConflict: Another writer appended meanwhile.
    """
    # Past the policy of what is kept: a transcript with entries left out is none.
    now = tk.backend.clock.now_ms()
    notes = [NewRecord(kind=RecordKind.NOTE, at_ms=now, turn=0, tokens=0, body=body) for body in bodies]
    return await tk.backend.store.append(name, notes, expected=expected)


async def rows_of(tk: Threadkeep, name: str) -> list[Record]:
    """Return the notes of a journal that count, without the one that names it."""
    store = tk.backend.store
    try:
        path = await live_path(store, name, whole=True)
    except ThreadNotFound:
        return []
    found = [record for span in reversed(path.spans) for record in await store.read(span, kinds={RecordKind.NOTE})]
    return [record for record in found if record.ordinal > NAMED_AT and not record.erased]


async def name_in(tk: Threadkeep, row: ThreadRow) -> dict[str, str] | None:
    """Return the key a journal is named by; None where nothing in it counts."""
    store = tk.backend.store
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    newest = await store.read(own, kinds={RecordKind.NOTE, RecordKind.ROLLBACK}, newest_first=True, limit=1, bodies=False)
    if not newest or newest[0].kind is RecordKind.ROLLBACK or newest[0].erased or newest[0].ordinal == NAMED_AT:
        return None
    named: dict[str, str] = json.loads((await store.read(Span(thread_id=row.id, start=NAMED_AT, stop=NAMED_AT + 1)))[0].body)
    return named
