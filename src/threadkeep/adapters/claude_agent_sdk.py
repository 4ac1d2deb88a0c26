"""Claude Agent SDK: a session store whose transcripts are threads.

    store = ThreadkeepSessionStore("agent.db")
    options = ClaudeAgentOptions(session_store=store, mcp_servers={"threadkeep": store.recall_server()})

Every transcript is stored twice. The *journal* is an archived thread that holds each entry as it was appended: `load` returns it,
and the client resumes from it. The *conversation* is what the importer of Claude Code transcripts makes of the journal, a thread
named like the session: recall, the viewer and `verify` use it. It can always be made again from the journal, so nothing that
happens to it changes what is resumed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from threadkeep.adapters import missing_host

try:
    from claude_agent_sdk import (
        McpSdkServerConfig,
        SessionKey,
        SessionStore,
        SessionStoreEntry,
        create_sdk_mcp_server,
        fold_session_summary,
        tool,
    )
    from claude_agent_sdk.types import SessionListSubkeysKey, SessionStoreListEntry, SessionSummaryEntry
except ImportError as error:
    raise missing_host("the Claude Agent SDK", error, install="'threadkeep[claude-agent-sdk]'") from error
import json
from hashlib import blake2b

from threadkeep.adapters.bridge import StoreHandle, StoreName
from threadkeep.adapters.item_rollback import clear_thread
from threadkeep.client import Threadkeep
from threadkeep.dialects import MESSAGES
from threadkeep.errors import InvalidItem, OrdinalConflict, ThreadkeepError, ThreadNotFound
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow
from threadkeep.threads.reader import load_live_path
from threadkeep.transfer.claude_code_reader import ClaudeCodeReader
from threadkeep.transfer.thread_builder import ThreadBuilder
from threadkeep.transfer.transcript_form import Lane, Step, Trouble

EVERY = 1_000_000
# Conversations kept in memory; a client runs few sessions and sub-agents at once.
MOST_CONVERSATIONS = 64

T = TypeVar("T")


class ThreadkeepSessionStore(SessionStore):
    """The SDK's `SessionStore` on a threadkeep store. One object may serve any number of clients, also in several processes."""

    def __init__(self, store: StoreName = None) -> None:
        """Set the store: a path, settings or an open store; None takes that of the configuration.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self.trouble: str | None = None
        """Why the newest entries are not in their conversation yet, for people; they are in the journal."""
        self._handle = StoreHandle(store)
        self._conversations: OrderedDict[str, Conversation] = OrderedDict()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._newest: SessionKey | None = None

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries, except those whose `uuid` is already there. Durable when it returns.

        Raises:
            InvalidItem: An entry is not a JSON object; nothing was recorded.
        """
        if entries:
            await self._run_locked(key, lambda tk: self._append(tk, key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return every entry as it was appended, in order; None if there is none."""
        rows = await self._handle.run_async(lambda tk: read_entries(tk, make_journal_id(key)))
        self._newest = key if rows and "subpath" not in key else self._newest
        return [cast("SessionStoreEntry", decode_entry(row.body)) for row in rows] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with when each was last written."""
        return [
            {"session_id": named["session_id"], "mtime": row.updated_at_ms}
            for row, named in await self._find_journals(make_journal_prefix(project_key))
            if "subpath" not in named
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summary of each session of a project."""
        summaries: list[SessionSummaryEntry] = []
        for row, named in await self._find_journals(make_journal_prefix(project_key)):
            if "subpath" not in named:
                key = cast("SessionKey", named)
                summary = fold_session_summary(None, key, await self.load(key) or [])
                summaries.append({**summary, "mtime": row.updated_at_ms})
        return summaries

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the sub-agents' transcripts of a session."""
        found = await self._find_journals(make_journal_prefix(key["project_key"], key["session_id"]))
        return [named["subpath"] for _, named in found if "subpath" in named]

    async def delete(self, key: SessionKey) -> None:
        """Remove a transcript from lists and loads; a session's sub-agents are removed with it.

        The records stay until they are erased; see `threadkeep erase`.
        """
        whole = "subpath" not in key
        prefix = make_journal_prefix(key["project_key"], key["session_id"]) if whole else make_journal_id(key)
        for _, named in await self._find_journals(prefix):
            each = cast("SessionKey", named)
            await self._run_locked(each, partial(self._delete, key=each))

    async def thread_id(self, key: SessionKey) -> str:
        """Return the thread that holds the conversation of a transcript, for `Threadkeep.thread` and the command line.

        Raises:
            ThreadNotFound: Nothing was appended under this key.
        """
        return await self._run_locked(key, lambda tk: self._find_conversation(tk, key))

    def recall_server(self, session: SessionKey | None = None) -> McpSdkServerConfig:
        """Return an MCP server for `ClaudeAgentOptions.mcp_servers` with one tool, which finds originals word for word.

        Args:
            session: The conversation to search; None takes the one this object loaded or appended to last.
        """

        @tool(NAME, DESCRIPTION, {"query": str})
        async def recall(arguments: dict[str, Any]) -> dict[str, Any]:
            key = session or self._newest
            text = await self._recall(key, str(arguments["query"])) if key is not None else "This conversation is still empty."
            return {"content": [{"type": "text", "text": text}]}

        return create_sdk_mcp_server("threadkeep", tools=[recall])

    async def _recall(self, key: SessionKey, query: str) -> str:
        async def found(tk: Threadkeep) -> str:
            return await render_recall(await tk.thread(await self._find_conversation(tk, key), dialect=DIALECT), query)

        return await self._run_locked(key, found)

    async def _run_locked(self, key: SessionKey, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        """Call `work`, one call at a time for each journal, again if another process wrote to it first."""

        async def work_until_done(tk: Threadkeep) -> T:
            async with self._locks[make_journal_id(key)]:
                while True:
                    try:
                        return await work(tk)
                    except OrdinalConflict:
                        continue

        return await self._handle.run_async(work_until_done)

    async def _find_journals(self, prefix: str) -> list[tuple[ThreadRow, dict[str, str]]]:
        async def found(tk: Threadkeep) -> list[tuple[ThreadRow, dict[str, str]]]:
            rows = await tk.backend.store.threads(prefix=prefix, limit=EVERY)
            named = [(row, await read_key(tk, row)) for row in rows]
            return [(row, name) for row, name in named if name is not None]

        return await self._handle.run_async(found)

    async def _append(self, tk: Threadkeep, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        name = make_journal_id(key)
        await begin_journal(tk, key)
        conversation = await self._load_conversation(tk, name)
        new = conversation.find_new([encode_entry(entry) for entry in entries])
        rows = [tk.backend.redact(row) for row in new] if tk.backend.redact else new
        if rows:
            conversation.next = await append_entries(tk, name, rows, expected=conversation.next)
        self._newest = key if "subpath" not in key else self._newest
        await self._write_conversation(tk, name, conversation, rows)

    async def _delete(self, tk: Threadkeep, *, key: SessionKey) -> None:
        thread_id = (await self._load_conversation(tk, make_journal_id(key))).thread_id
        await clear_thread(tk, await tk.thread(make_journal_id(key), dialect=DIALECT))
        self._conversations.pop(make_journal_id(key), None)
        if thread_id is not None:
            await (await tk.thread(thread_id, dialect=DIALECT)).archive()

    async def _find_conversation(self, tk: Threadkeep, key: SessionKey) -> str:
        name = make_journal_id(key)
        conversation = await self._load_conversation(tk, name)
        if conversation.thread_id is None:
            raise ThreadNotFound(name)
        return conversation.thread_id

    async def _load_conversation(self, tk: Threadkeep, name: str) -> Conversation:
        """Return the conversation of a whole journal, from memory unless another process wrote to the journal."""
        row = await tk.backend.store.get(name)
        conversation = self._conversations.pop(name, None)
        if conversation is None or conversation.next != row.next:
            conversation = Conversation(tk, next_ordinal=row.next)
            await self._write_conversation(tk, name, conversation, [each.body for each in await read_entries(tk, name)])
        return conversation

    async def _write_conversation(self, tk: Threadkeep, name: str, conversation: Conversation, rows: Sequence[bytes]) -> None:
        """Write entries to their conversation. They are durable in the journal, so a failure here is repaired the next time."""
        self.trouble = None
        try:
            await conversation.write(rows)
        except ThreadkeepError as error:
            self.trouble = str(error)
            return
        self._conversations[name] = conversation
        if len(self._conversations) > MOST_CONVERSATIONS:
            self._conversations.popitem(last=False)


DIALECT = MESSAGES.name
JOURNAL_PREFIX = "claude"
# The ordinal of a journal's key; entries come after it.
KEY_AT = 1


class Conversation:
    """The threads that the importer makes of one journal."""

    def __init__(self, tk: Threadkeep, *, next_ordinal: int) -> None:
        self.next = next_ordinal
        self._uuids: set[str] = set()
        self._backend = tk.backend
        self._reader = ClaudeCodeReader()
        self._landings: dict[str, ThreadBuilder] = {}
        self._current: ThreadBuilder | None = None

    @property
    def thread_id(self) -> str | None:
        """The thread of the transcript itself, not of a sub-agent in it."""
        begun = (landing.thread_id for landing in self._landings.values() if landing.begun)
        return next(begun, None)

    def find_new(self, rows: Sequence[bytes]) -> list[bytes]:
        """Return the rows whose `uuid` is not there yet, and those without one; of two with the same `uuid`, the first."""
        new: dict[object, bytes] = {}
        for row in rows:
            uuid = _find_uuid(row)
            if uuid is None or uuid not in self._uuids:
                new.setdefault(object() if uuid is None else uuid, row)
        return list(new.values())

    async def write(self, rows: Sequence[bytes]) -> None:
        """Write rows to their threads. Durable when it returns."""
        self._uuids |= {uuid for row in rows if (uuid := _find_uuid(row)) is not None}
        for row in rows:
            await self._write_steps(self._reader.feed(row))
        await self._write_steps(self._reader.finish())
        for landing in self._landings.values():
            await landing.finish()

    async def _write_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Lane):
                self._current = self._landings.setdefault(step.thread_id, ThreadBuilder(self._backend, step))
            elif self._current is not None and not isinstance(step, Trouble):
                await self._current.take(step)


def make_journal_id(key: SessionKey) -> str:
    """Return the id of the thread that holds a transcript's entries."""
    return f"{make_journal_prefix(key['project_key'], key['session_id'])}{_digest_name(key.get('subpath', ''))}"


def make_journal_prefix(project_key: str, session_id: str | None = None) -> str:
    """Return the common prefix of the journal ids of a project, or of one of its sessions."""
    project = f"{JOURNAL_PREFIX}-{_digest_name(project_key)}-"
    return project if session_id is None else f"{project}{_digest_name(session_id)}-"


def _digest_name(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def encode_entry(entry: object) -> bytes:
    """Return an entry as ASCII JSON, which also holds the half surrogate pairs that clients leave in cut outputs.

    Raises:
        InvalidItem: It is not a JSON object, or holds a value that JSON does not have.
    """
    if not isinstance(entry, dict):
        raise InvalidItem(dialect=DIALECT, reason="an entry of a transcript is a JSON object")
    try:
        return json.dumps(entry, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidItem(dialect=DIALECT, reason=str(error)) from error


def decode_entry(row: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(row)
    return entry


def _find_uuid(row: bytes) -> str | None:
    uuid = decode_entry(row).get("uuid")
    return uuid if isinstance(uuid, str) else None


async def begin_journal(tk: Threadkeep, key: SessionKey) -> None:
    """Create the journal if it does not exist: an archived thread whose first note is its key."""
    name = make_journal_id(key)
    try:
        await tk.backend.store.get(name)
    except ThreadNotFound:
        thread = await tk.thread(name, dialect=DIALECT)
        await append_entries(tk, name, [encode_entry(dict(key))], expected=KEY_AT)
        await thread.archive()


async def append_entries(tk: Threadkeep, name: str, bodies: Sequence[bytes], *, expected: int) -> int:
    """Append rows to a journal as one unit and return its next ordinal. Durable when it returns.

    Raises:
        OrdinalConflict: Another writer appended meanwhile.
    """
    # Appended directly: the policy that drops records must not leave gaps in a transcript.
    now = tk.backend.clock.now_ms()
    notes = [NewRecord(kind=RecordKind.NOTE, at_ms=now, turn=0, tokens=0, body=body) for body in bodies]
    return await tk.backend.store.append(name, notes, expected=expected)


async def read_entries(tk: Threadkeep, name: str) -> list[Record]:
    """Return the entries on a journal's live path."""
    store = tk.backend.store
    try:
        path = await load_live_path(store, name, whole=True)
    except ThreadNotFound:
        return []
    found = [record for span in reversed(path.spans) for record in await store.read(span, kinds={RecordKind.NOTE})]
    return [record for record in found if record.ordinal > KEY_AT and not record.erased]


async def read_key(tk: Threadkeep, row: ThreadRow) -> dict[str, str] | None:
    """Return the key of a journal; None if it has no entries."""
    store = tk.backend.store
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    newest = await store.read(own, kinds={RecordKind.NOTE, RecordKind.ROLLBACK}, newest_first=True, limit=1, bodies=False)
    if not newest or newest[0].kind is RecordKind.ROLLBACK or newest[0].erased or newest[0].ordinal == KEY_AT:
        return None
    named: dict[str, str] = json.loads((await store.read(Span(thread_id=row.id, start=KEY_AT, stop=KEY_AT + 1)))[0].body)
    return named
