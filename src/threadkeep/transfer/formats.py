"""Recognises the program that wrote a file, and chooses its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from threadkeep.dialects.raw_json import split_list
from threadkeep.errors import UnknownFormat
from threadkeep.transfer.claude_code import ClaudeCodeReader
from threadkeep.transfer.codex import CodexReader
from threadkeep.transfer.files import is_sqlite, sample, whole_text
from threadkeep.transfer.hermes import hermes_steps
from threadkeep.transfer.pi import PiReader
from threadkeep.transfer.plain import PlainReader, document_steps, history_in
from threadkeep.transfer.rows import Row, row_of, text_in
from threadkeep.transfer.steps import LineReader, Step

SAMPLE_LINES = 64

CODEX_LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"})
RESPONSES_TYPES = frozenset(
    {
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
        "local_shell_call",
        "item_reference",
        "web_search_call",
    }
)
RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "refusal"})
MESSAGES_PARTS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "server_tool_use"})


class Format(StrEnum):
    """What can be imported."""

    CODEX = "codex"
    CLAUDE_CODE = "claude-code"
    PI = "pi"
    HERMES = "hermes"
    RESPONSES = "responses"
    CHAT = "chat"
    MESSAGES = "messages"


PLAIN = frozenset({Format.RESPONSES, Format.CHAT, Format.MESSAGES})


def format_of_lines(lines: Sequence[bytes]) -> Format | None:
    """Return what a file is whose first lines these are; None where nothing in them says."""
    rows = [row for row in (row_of(line) for line in lines[:SAMPLE_LINES]) if row is not None]
    found = next((kind for row in rows if (kind := _client_of(row)) is not None), None)
    if found is not None:
        return found
    items = [span for row in rows for span in (history_in(row) or [])] or [line for line in lines if row_of(line) is not None]
    return format_of_items(items)


def format_of_document(body: bytes) -> Format | None:
    """Return the dialect of a whole JSON document; None where it holds no items."""
    spans = split_list(body)
    if spans is None:
        row = row_of(body)
        return format_of_items(history_in(row) or []) if row is not None else None
    nested = [history for span in spans if (row := row_of(span)) is not None and (history := history_in(row)) is not None]
    return format_of_items([item for history in nested for item in history] if nested else spans)


def format_of_items(spans: Iterable[bytes]) -> Format | None:
    """Return the dialect that items speak: the first that is sure; `chat` where all of them would read them alike."""
    spoken = False
    for span in spans:
        row = row_of(span)
        if row is None:
            continue
        found = _dialect_of(row)
        if found is not None:
            return found
        spoken = spoken or bool(text_in(row, "role"))
    return Format.CHAT if spoken else None


def _client_of(row: Row) -> Format | None:
    kind = text_in(row, "type")
    if kind in CODEX_LINES and "payload" in row:
        return Format.CODEX
    if kind == "session" and "timestamp" in row and "id" in row:
        return Format.PI
    if "instructions" in row and "timestamp" in row and "id" in row and not kind:
        return Format.CODEX
    if "uuid" in row and ("sessionId" in row or "parentUuid" in row):
        return Format.CLAUDE_CODE
    if kind == "summary" and "leafUuid" in row:
        return Format.CLAUDE_CODE
    return None


def _dialect_of(row: Row) -> Format | None:
    if text_in(row, "type") in RESPONSES_TYPES:
        return Format.RESPONSES
    if "tool_calls" in row or "tool_call_id" in row or text_in(row, "role") in ("tool", "function", "system"):
        return Format.CHAT
    for span in split_list(row.get("content", b"null")) or []:
        part = row_of(span)
        kind = text_in(part, "type") if part is not None else ""
        if kind in RESPONSES_PARTS:
            return Format.RESPONSES
        if kind in MESSAGES_PARTS or (kind == "image" and part is not None and "source" in part):
            return Format.MESSAGES
        if kind == "image_url":
            return Format.CHAT
    if text_in(row, "role") == "developer" or text_in(row, "type") == "message":
        return Format.RESPONSES
    return None


LARGEST_DOCUMENT = 512 << 20
# What is looked at in a folder; a file that is named is looked at whatever it is called.
ENDINGS = (".jsonl", ".jsonl.zst", ".json", "state.db")

Source = LineReader | Callable[[], Iterator[Step]]
"""A reader that is fed lines, or a function that yields the steps of a file that is read as a whole."""


def source_of(path: Path, form: Format | None) -> Source:
    """Return what reads `path`, as `form` or, without one, as what stands in it.

    Raises:
        UnknownFormat: Nothing in it says what it is.
        UnreadableTranscript: It cannot be opened.
    """
    if form is Format.HERMES or (form is None and is_sqlite(path)):
        return lambda: hermes_steps(path)
    beginning = sample(path)
    lines = beginning.split(b"\n")
    document = beginning.lstrip()[:1] == b"[" or (_first_is_cut(lines) and _is_one_value(beginning))
    if form is None:
        form = None if document else format_of_lines(lines)
    if form is not None and form not in PLAIN:
        return _reader(form)
    if form is not None and not document:
        return PlainReader(form.value)
    body = whole_text(path, limit=LARGEST_DOCUMENT)
    found = form or format_of_document(body)
    if found is None:
        raise UnknownFormat(str(path), known=tuple(Format))
    return lambda: iter(document_steps(body, dialect=found.value))


def _reader(form: Format) -> LineReader:
    match form:
        case Format.CODEX:
            return CodexReader()
        case Format.CLAUDE_CODE:
            return ClaudeCodeReader()
        case Format.PI:
            return PiReader()
        case _:
            raise AssertionError(f"{form} is not read line by line")


def _first_is_cut(lines: list[bytes]) -> bool:
    first = next((line for line in lines if line.strip()), b"")
    return row_of(first) is None


def _is_one_value(beginning: bytes) -> bool:
    """Whether a file looks like one JSON value over several lines: none of its lines is a value by itself."""
    return beginning.lstrip()[:1] == b"{" and not any(row_of(line) for line in beginning.split(b"\n"))
