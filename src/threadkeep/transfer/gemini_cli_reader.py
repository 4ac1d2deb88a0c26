"""Reads the session files of Gemini CLI: one JSON object, or one line for a header, each message and each later change.

A message is written again whenever it changes, and the newest version counts; `$rewindTo` takes a message and those behind it
back. The CLI keeps what it needs to go on and no signatures, so a message becomes the contents that the CLI sends when it resumes
the session: words, calls, and what the tools returned. The message as it was written is kept as a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from threadkeep.dialects import GEMINI
from threadkeep.dialects.raw_json import encode_value, read_object, split_list, split_object
from threadkeep.transfer.json_rows import Row, drop_fields, get_text, get_time_ms, make_thread_name, parse_row
from threadkeep.transfer.transcript_form import Lane, Note, PutItem, Step, Trouble

SPEAKERS = {"user": "user", "gemini": "model"}
# What the CLI says to its user, and no model sees.
ASIDE = frozenset({"info", "warning", "error"})
CALL_FIELDS = ("id", "name", "args")


def is_gemini_cli(row: Row) -> bool:
    """Whether an object is a session, or the header of one."""
    return "sessionId" in row and "projectHash" in row


def read_gemini_cli(body: bytes) -> Iterator[Step]:
    """Yield the steps of one session file."""
    whole = split_object(body)
    lines = [] if whole is not None else [line for line in body.split(b"\n") if line.strip()]
    header = whole or (split_object(lines[0]) if lines else None) or {}
    name = make_thread_name(get_text(header, "sessionId"), prefix="gemini-cli", content=body)
    yield Lane(
        thread_id=name, dialect=GEMINI.name, opening=(Note(body=encode_value(read_object(drop_fields(header, "messages")))),)
    )
    messages: dict[str, bytes] = {}
    for line in (*(split_list(header.get("messages", b"null")) or ()), *lines[1:]):
        row = parse_row(line)
        if row is None:
            yield Trouble(text="not a JSON object")
            yield Note(body=line)
        else:
            _take_line(messages, line, row)
    for line in messages.values():
        yield from _read_message(line)


def _take_line(messages: dict[str, bytes], line: bytes, row: Row) -> None:
    """Bring the messages, by id, to where a line leaves them."""
    change = parse_row(row.get("$set", b"null"))
    if change is not None and "messages" in change:
        messages.clear()
        for span in split_list(change["messages"]) or ():
            messages[get_text(parse_row(span) or {}, "id")] = span
    elif rewound := get_text(row, "$rewindTo"):
        keys = list(messages)
        for key in keys[keys.index(rewound) :] if rewound in messages else keys:
            del messages[key]
    elif change is None and "type" in row:
        messages[get_text(row, "id")] = line


def _read_message(line: bytes) -> Iterator[Step]:
    row, message = parse_row(line) or {}, read_object(line) or {}
    kind, key, at = get_text(row, "type"), get_text(row, "id") or None, get_time_ms(row)
    role = SPEAKERS.get(kind)
    contents = _render_contents(message, role) if role is not None else []
    if role is None and kind not in ASIDE:
        yield Trouble(text=f"a message of an unknown type: {kind[:40]!r}")
    for number, content in enumerate(contents):
        yield PutItem(item=GEMINI.parse(content), key=key if not number else None, at_ms=at)
    yield Note(body=line, key=None if contents else key, at_ms=at)


def _render_contents(message: dict[str, object], role: str) -> list[dict[str, object]]:
    """Return the contents of a message: what was said and called, and what the tools returned."""
    parts = _list_parts(message.get("content"))
    listed = message.get("toolCalls")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    called = [{"functionCall": {name: call[name] for name in CALL_FIELDS if name in call}} for call in calls]
    returned = [part for call in calls for part in _list_parts(call.get("result"))]
    contents: list[dict[str, object]] = [{"role": role, "parts": [*parts, *called]}] if parts or called else []
    return [*contents, {"role": "user", "parts": returned}] if returned else contents


def _list_parts(content: object) -> list[object]:
    """Return content as parts: it is written as a text, as one part, or as a list of texts and parts."""
    if isinstance(content, list):
        return [part for each in content for part in _list_parts(each)]
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [content] if isinstance(content, dict) else []
