"""Reads Claude Code transcripts: rows that name their parent, sub-agents, compaction boundaries.

A row's message is the item, byte for byte. A row whose parent is not the newest row takes the conversation back to that
parent. Other content of a row is kept as a note.
"""

from __future__ import annotations

from collections.abc import Iterable

from threadkeep.dialects import MESSAGES
from threadkeep.items import Item
from threadkeep.transfer.json_rows import (
    Row,
    drop_fields,
    get_text,
    get_time_ms,
    has_more,
    is_true,
    make_short_digest,
    make_thread_name,
    parse_row,
)
from threadkeep.transfer.transcript_form import Compacted, GoTo, Lane, Note, PutItem, Step, Titled, Trouble

ISSUER = "claude-code"
DIALECT = MESSAGES.name
# Fields that the thread has already, or that are about the client's process.
ROUTING = frozenset(
    {
        "parentUuid",
        "isSidechain",
        "userType",
        "cwd",
        "sessionId",
        "version",
        "gitBranch",
        "type",
        "message",
        "uuid",
        "timestamp",
        "requestId",
        "entrypoint",
        "slug",
        "isMeta",
        "agentId",
    }
)
TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
HELD_LINES = 1_000


class ClaudeCodeReader:
    """Reads one transcript; see `LineReader`."""

    def __init__(self) -> None:
        self._session = ""
        self._lane: Lane | None = None
        self._lanes: dict[str, Lane] = {}
        self._parents: dict[str, str] = {}
        self._lines: dict[str, str] = {}
        self._held: list[Step] = []
        self._first = b""
        self._boundary: tuple[str, ...] | None = None

    def feed(self, line: bytes) -> list[Step]:
        if not line.strip():
            return []
        self._first = self._first or line
        row = parse_row(line)
        if row is None:
            return self._emit([Trouble(text="not a JSON object"), Note(body=line)])
        self._session = self._session or get_text(row, "sessionId")
        uuid = get_text(row, "uuid")
        if not uuid:
            return self._emit(self._read_loose_row(line, row))
        repeated = self._lines.setdefault(uuid, make_short_digest(line))
        twice = [Trouble(text=f"a second row called {uuid[:40]!r}")] if uuid in self._lanes else []
        if twice and repeated == make_short_digest(line):
            return self._emit([*twice, Note(body=line, at_ms=get_time_ms(row))])
        lane = self._find_lane(row, uuid)
        self._lanes[uuid] = lane
        self._parents[uuid] = get_text(row, "parentUuid") or get_text(row, "logicalParentUuid")
        return self._emit([*twice, *self._find_move(row), *self._read_row(line, row, uuid)], lane=lane)

    def finish(self) -> list[Step]:
        return self._emit((), lane=self._lane or self._make_main_lane()) if self._held else []

    def _emit(self, steps: Iterable[Step], *, lane: Lane | None = None) -> list[Step]:
        """Return the steps, after a change of lane if needed; hold them until their lane is known."""
        lane = lane or self._lane or (self._make_main_lane() if self._session or len(self._held) >= HELD_LINES else None)
        if lane is None:
            self._held.extend(steps)
            return []
        found: list[Step] = [lane] if lane is not self._lane else []
        self._lane = lane
        found.extend(self._held)
        self._held = []
        found.extend(steps)
        return found

    def _make_main_lane(self) -> Lane:
        name = make_thread_name(self._session, prefix="claude", content=self._first)
        return self._lanes.setdefault("", Lane(thread_id=name, dialect=DIALECT, session=self._session))

    def _find_lane(self, row: Row, uuid: str) -> Lane:
        """Return the lane of a row: the session's, the sub-agent's, or that of the sidechain it continues."""
        if not is_true(row, "isSidechain"):
            return self._make_main_lane()
        parent = self._lanes.get(get_text(row, "parentUuid"))
        if parent is not None and parent is not self._lanes.get(""):
            return parent
        agent = get_text(row, "agentId")
        if agent:
            name = make_thread_name(f"agent-{agent}", prefix="agent", content=agent.encode())
        else:
            own = uuid.split("-")[0][:16]
            name = make_thread_name(f"{self._session or 'claude'}-side-{own}", prefix="side", content=uuid.encode())
        return Lane(
            thread_id=name, dialect=DIALECT, session=self._session, agent=agent or f"side-{make_short_digest(uuid.encode())}"
        )

    def _read_loose_row(self, line: bytes, row: Row) -> list[Step]:
        """Return the steps of a row outside the tree: a title, a mode, a snapshot."""
        steps: list[Step] = [Note(body=line, at_ms=get_time_ms(row))]
        kind = get_text(row, "type")
        title = get_text(row, TITLES.get(kind, ""))
        # The file has summaries of other sessions too; its own names one of its rows as the last.
        if title and (kind != "summary" or get_text(row, "leafUuid") in self._lanes):
            steps.append(Titled(title=title))
        return steps

    def _find_move(self, row: Row) -> list[Step]:
        if "parentUuid" not in row:
            return []
        parent = get_text(row, "parentUuid") or get_text(row, "logicalParentUuid")
        if parent:
            return [GoTo(key=parent, at_ms=get_time_ms(row))]
        # Rows about the client have no parent either.
        return [GoTo(key=None, at_ms=get_time_ms(row))] if "message" in row else []

    def _read_row(self, line: bytes, row: Row, uuid: str) -> list[Step]:
        at = get_time_ms(row)
        message = parse_row(row.get("message", b"null"))
        kind = get_text(row, "type")
        if get_text(row, "subtype") == "compact_boundary":
            self._boundary = self._find_preserved(row)
            return [Note(body=line, key=uuid, at_ms=at)]
        if message is None or kind not in ("user", "assistant") or not get_text(message, "role") or "content" not in message:
            known = message is None and kind not in ("user", "assistant")
            trouble = () if known else (Trouble(text=f"a {kind[:40]} row without a readable message"),)
            return [*trouble, Note(body=line, key=uuid, at_ms=at)]
        if is_true(row, "isApiErrorMessage"):
            return [Note(body=line, key=uuid, at_ms=at)]
        put = PutItem(item=Item(row["message"]), key=uuid, at_ms=at)
        rest = [Note(body=drop_fields(row, "message"), at_ms=at)] if has_more(row, ROUTING) else []
        return [*self._add_checkpoint(put, summary=is_true(row, "isCompactSummary")), *rest]

    def _add_checkpoint(self, put: PutItem, *, summary: bool) -> list[Step]:
        """Return a message with the checkpoint of a compaction boundary before it.

        The summary comes right after the boundary, and before the messages that the compaction kept.
        """
        kept, self._boundary = self._boundary, None
        if summary:
            return [put, Compacted(layout=(put.key or "", *(kept or ())), issuer=ISSUER, at_ms=put.at_ms)]
        if kept is not None:
            return [Compacted(layout=kept, issuer=ISSUER, at_ms=put.at_ms), put]
        return [put]

    def _find_preserved(self, row: Row) -> tuple[str, ...]:
        """Return the rows that a compaction kept, in order."""
        data = parse_row(row.get("compactMetadata", b"null")) or {}
        segment = parse_row(data.get("preservedSegment", b"null")) or {}
        head, current = get_text(segment, "headUuid"), get_text(segment, "tailUuid")
        if head not in self._parents:
            return ()
        kept: list[str] = []
        while current in self._parents and len(kept) < len(self._parents):
            kept.append(current)
            if current == head:
                return tuple(reversed(kept))
            current = self._parents[current]
        return ()
