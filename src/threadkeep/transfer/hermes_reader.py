"""Reads Hermes' `state.db`: every session, in the `chat` dialect.

A compaction in place marks the rows it replaces and adds the shorter list; a compaction by rotation ends the session and begins
a child session with the shorter list. Both become checkpoints.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from threadkeep.dialects import CHAT
from threadkeep.errors import UnreadableTranscript
from threadkeep.items import Item
from threadkeep.transfer.json_rows import make_thread_name
from threadkeep.transfer.transcript_form import Compacted, Lane, Note, PutItem, Step, Titled, Trouble

ISSUER = "hermes"
DIALECT = CHAT.name
# The prefix of content that is not plain text.
JSON_CONTENT = "\x00json:"
SPOKEN = ("tool_call_id", "name")
IN_ITEM = frozenset({"role", "content", "tool_calls", "tool_call_id", "id", "session_id", "timestamp", "active", "compacted"})


def read_hermes(path: Path) -> Iterator[Step]:
    """Yield the steps of every session, parents first; damage on the way is reported as a step.

    Raises:
        UnreadableTranscript: The database has no readable sessions.
    """
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise UnreadableTranscript(str(path), str(error)) from error
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        sessions = _load_sessions(connection, path)
        try:
            for session in sessions:
                yield from _read_session(connection, session)
        except sqlite3.Error as error:
            yield Trouble(text=f"the database cannot be read further: {error}")
    finally:
        connection.close()


def _load_sessions(connection: sqlite3.Connection, path: Path) -> list[dict[str, Any]]:
    try:
        rows = [dict(row) for row in connection.execute("SELECT * FROM sessions ORDER BY started_at, id")]
    except sqlite3.Error as error:
        raise UnreadableTranscript(str(path), f"it is no database of Hermes that can be read: {error}") from error
    known = {row["id"]: row for row in rows}
    placed: dict[str, dict[str, Any]] = {}
    for row in rows:
        line: list[dict[str, Any]] = []
        current: dict[str, Any] | None = row
        while current is not None and current["id"] not in placed and current not in line:
            line.append(current)
            current = known.get(current.get("parent_session_id") or "")
        placed.update((each["id"], each) for each in reversed(line))
    return list(placed.values())


def _read_session(connection: sqlite3.Connection, session: dict[str, Any]) -> Iterator[Step]:
    at = _to_ms(session.get("started_at"))
    name = make_thread_name(str(session["id"]), prefix="hermes", content=str(session["id"]).encode())
    parent = session.get("parent_session_id")
    rotated = parent and _was_compressed(connection, parent)
    source = make_thread_name(str(parent), prefix="hermes", content=str(parent).encode()) if rotated else None
    note = Note(body=_encode_json({key: value for key, value in session.items() if value is not None}), at_ms=at)
    yield Lane(thread_id=name, dialect=DIALECT, continued_from=source, opening=(note,))
    if rotated:
        yield Compacted(layout=(), issuer=ISSUER, at_ms=at)
    replaced = False
    for row in connection.execute("SELECT * FROM messages WHERE session_id = ? ORDER BY id", (session["id"],)):
        message = dict(row)
        active, compacted = message.get("active", 1), message.get("compacted", 0)
        if replaced and active:
            yield Compacted(layout=(), issuer=ISSUER, at_ms=_to_ms(message.get("timestamp")))
            replaced = False
        replaced = replaced or bool(not active and compacted)
        yield from _read_message(message, shown=bool(active or compacted))
    if title := session.get("title"):
        yield Titled(title=str(title))


def _was_compressed(connection: sqlite3.Connection, session_id: str) -> bool:
    row = connection.execute("SELECT end_reason FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return row is not None and row[0] == "compression"


def _read_message(message: dict[str, Any], *, shown: bool) -> Iterator[Step]:
    at = _to_ms(message.get("timestamp"))
    item: dict[str, Any] = {"role": message["role"], "content": _decode_content(message.get("content"))}
    calls = message.get("tool_calls")
    try:
        if calls:
            item["tool_calls"] = json.loads(calls)
    except (ValueError, TypeError):
        yield Trouble(text=f"message {message['id']} has tool calls that cannot be read")
    for field in SPOKEN:
        if message.get(field):
            item[field] = message[field]
    rest = {key: value for key, value in message.items() if key not in IN_ITEM and value is not None}
    if not shown:
        # A message that a person took back; Hermes never sends it again.
        yield Note(body=_encode_json({key: value for key, value in message.items() if value is not None}), at_ms=at)
        return
    yield PutItem(item=Item(_encode_json(item)), at_ms=at)
    if rest:
        yield Note(body=_encode_json({"id": message["id"], **rest}), at_ms=at)


def _decode_content(content: object) -> object:
    if isinstance(content, str) and content.startswith(JSON_CONTENT):
        try:
            return json.loads(content.removeprefix(JSON_CONTENT))
        except ValueError:
            return content
    return content


def _encode_json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    return text.encode("utf-8", "replace")


def _to_ms(seconds: object) -> int | None:
    return int(seconds * 1000) if isinstance(seconds, int | float) and 0 <= seconds < 1 << 40 else None
