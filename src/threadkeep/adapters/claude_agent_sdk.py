"""Claude Agent SDK: a session store whose transcripts are threads.

    store = ThreadkeepSessionStore("agent.db")
    options = ClaudeAgentOptions(session_store=store, mcp_servers={"threadkeep": store.recall_server()})

Every transcript is kept twice. The *journal* is a thread put away from the usual list, with each entry as it was appended: what
`load` returns, and so what the client resumes from. The *conversation* is what the importer of Claude Code transcripts makes of
the journal, a thread called like the session: what recall, the viewer and `verify` work on. It is made again from the journal
wherever that is needed, so nothing that happens to it can change what is resumed.
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
from collections.abc import Mapping
from hashlib import blake2b

from threadkeep.adapters.bridge import Reach, StoreName
from threadkeep.adapters.item_rollback import emptied
from threadkeep.client import Threadkeep
from threadkeep.dialects import MESSAGES
from threadkeep.errors import InvalidItem, OrdinalConflict, ThreadkeepError, ThreadNotFound
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow
from threadkeep.threads.reader import load_live_path
from threadkeep.transfer.claude_code import ClaudeCodeReader
from threadkeep.transfer.steps import Lane, Step, Trouble
from threadkeep.transfer.thread_builder import ThreadBuilder

EVERY = 1_000_000
# Conversations that are followed without being read again; a client has few sessions and sub-agents under way at once.
FOLLOWED = 64

T = TypeVar("T")


class ThreadkeepSessionStore(SessionStore):
    """The SDK's `SessionStore` on a threadkeep store. One object may serve any number of clients, also in several processes."""

    def __init__(self, store: StoreName = None) -> None:
        """Name the store: a path, settings or an open store; None takes what the configuration names.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self.trouble: str | None = None
        """Why the last entries are not in their conversation yet, in words for a person; they are in the journal."""
        self._reach = Reach(store)
        self._followed: OrderedDict[str, Conversation] = OrderedDict()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._newest: SessionKey | None = None

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries, but for those whose `uuid` is there already. Durable when it returns.

        Raises:
            InvalidItem: One of them is no JSON object; nothing was recorded.
        """
        if entries:
            await self._in_journal(key, lambda tk: self._append(tk, key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return every entry as it was appended, in that order; None where there is none."""
        rows = await self._reach.awaited(lambda tk: rows_of(tk, journal_id(key)))
        self._newest = key if rows and "subpath" not in key else self._newest
        return [cast("SessionStoreEntry", read_row(row.body)) for row in rows] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with when each was last written."""
        return [
            {"session_id": named["session_id"], "mtime": row.updated_at_ms}
            for row, named in await self._journals(journal_prefix(project_key))
            if "subpath" not in named
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return what the SDK makes of each session of a project for its lists."""
        summaries: list[SessionSummaryEntry] = []
        for row, named in await self._journals(journal_prefix(project_key)):
            if "subpath" not in named:
                key = cast("SessionKey", named)
                summary = fold_session_summary(None, key, await self.load(key) or [])
                summaries.append({**summary, "mtime": row.updated_at_ms})
        return summaries

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the sub-agents' transcripts of a session."""
        found = await self._journals(journal_prefix(key["project_key"], key["session_id"]))
        return [named["subpath"] for _, named in found if "subpath" in named]

    async def delete(self, key: SessionKey) -> None:
        """Put a transcript away, and with a session those of its sub-agents: it is loaded and listed no more.

        The records stay, as everything does, until they are erased; see `threadkeep erase`.
        """
        whole = "subpath" not in key
        prefix = journal_prefix(key["project_key"], key["session_id"]) if whole else journal_id(key)
        for _, named in await self._journals(prefix):
            each = cast("SessionKey", named)
            await self._in_journal(each, partial(self._delete, key=each))

    async def thread_id(self, key: SessionKey) -> str:
        """Return the thread that holds the conversation of a transcript, for `Threadkeep.thread` and the command line.

        Raises:
            ThreadNotFound: Nothing was appended under this key.
        """
        return await self._in_journal(key, lambda tk: self._conversation_id(tk, key))

    def recall_server(self, session: SessionKey | None = None) -> McpSdkServerConfig:
        """Return an MCP server, for `ClaudeAgentOptions.mcp_servers`, with one tool: what was said before, word for word.

        Args:
            session: Whose conversation is searched; None takes the one last loaded or appended to through this object.
        """

        @tool(NAME, DESCRIPTION, {"query": str})
        async def recall(arguments: dict[str, Any]) -> dict[str, Any]:
            key = session or self._newest
            text = await self._recalled(key, str(arguments["query"])) if key is not None else "Nothing was said yet."
            return {"content": [{"type": "text", "text": text}]}

        return create_sdk_mcp_server("threadkeep", tools=[recall])

    async def _recalled(self, key: SessionKey, query: str) -> str:
        async def found(tk: Threadkeep) -> str:
            return await render_recall(await tk.thread(await self._conversation_id(tk, key), dialect=DIALECT), query)

        return await self._in_journal(key, found)

    async def _in_journal(self, key: SessionKey, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` comes to, one at a time for each journal; again where another process wrote to it first."""

        async def worked(tk: Threadkeep) -> T:
            async with self._locks[journal_id(key)]:
                while True:
                    try:
                        return await work(tk)
                    except OrdinalConflict:
                        continue

        return await self._reach.awaited(worked)

    async def _journals(self, prefix: str) -> list[tuple[ThreadRow, dict[str, str]]]:
        async def found(tk: Threadkeep) -> list[tuple[ThreadRow, dict[str, str]]]:
            rows = await tk.backend.store.threads(prefix=prefix, limit=EVERY)
            named = [(row, await name_in(tk, row)) for row in rows]
            return [(row, name) for row, name in named if name is not None]

        return await self._reach.awaited(found)

    async def _append(self, tk: Threadkeep, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        name = journal_id(key)
        await begin_journal(tk, key)
        conversation = await self._caught_up(tk, name)
        fresh = conversation.unknown([written_row(entry) for entry in entries])
        rows = [tk.backend.redact(row) for row in fresh] if tk.backend.redact else fresh
        if rows:
            conversation.next = await note_down(tk, name, rows, expected=conversation.next)
        self._newest = key if "subpath" not in key else self._newest
        await self._take(tk, name, conversation, rows)

    async def _delete(self, tk: Threadkeep, *, key: SessionKey) -> None:
        thread_id = (await self._caught_up(tk, journal_id(key))).thread_id
        await emptied(tk, await tk.thread(journal_id(key), dialect=DIALECT))
        self._followed.pop(journal_id(key), None)
        if thread_id is not None:
            await (await tk.thread(thread_id, dialect=DIALECT)).archive()

    async def _conversation_id(self, tk: Threadkeep, key: SessionKey) -> str:
        name = journal_id(key)
        conversation = await self._caught_up(tk, name)
        if conversation.thread_id is None:
            raise ThreadNotFound(name)
        return conversation.thread_id

    async def _caught_up(self, tk: Threadkeep, name: str) -> Conversation:
        """Return the conversation with all its journal holds; made anew where it is not followed, or went on elsewhere."""
        row = await tk.backend.store.get(name)
        conversation = self._followed.pop(name, None)
        if conversation is None or conversation.next != row.next:
            conversation = Conversation(tk, next_ordinal=row.next)
            await self._take(tk, name, conversation, [each.body for each in await rows_of(tk, name)])
        return conversation

    async def _take(self, tk: Threadkeep, name: str, conversation: Conversation, rows: Sequence[bytes]) -> None:
        """Put entries into their conversation. They are durable in the journal: what fails here is made good the next time."""
        self.trouble = None
        try:
            await conversation.take(rows)
        except ThreadkeepError as error:
            self.trouble = str(error)
            return
        self._followed[name] = conversation
        if len(self._followed) > FOLLOWED:
            self._followed.popitem(last=False)


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
        self._landings: dict[str, ThreadBuilder] = {}
        self._current: ThreadBuilder | None = None

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
                self._current = self._landings.setdefault(step.thread_id, ThreadBuilder(self._backend, step))
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
        path = await load_live_path(store, name, whole=True)
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
