"""Recognises the program that wrote a file, and chooses its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from threadkeep.dialects import CHAT, DIALECTS
from threadkeep.dialects.raw_json import split_list
from threadkeep.errors import UnknownFormat
from threadkeep.items import Item
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


class Format(StrEnum):
    """The files of clients that can be imported."""

    CODEX = "codex"
    CLAUDE_CODE = "claude-code"
    PI = "pi"
    HERMES = "hermes"


# Everything that can be imported: a client's files, or plain items of a dialect.
FORMATS: tuple[str, ...] = (*Format, *DIALECTS)


def format_of_lines(lines: Sequence[bytes]) -> str | None:
    """Return what a file is whose first lines these are; None where nothing in them says."""
    rows = [row for row in (row_of(line) for line in lines[:SAMPLE_LINES]) if row is not None]
    found = next((kind for row in rows if (kind := _client_of(row)) is not None), None)
    if found is not None:
        return found
    items = [span for row in rows for span in (history_in(row) or [])] or [line for line in lines if row_of(line) is not None]
    return format_of_items(items)


def format_of_document(body: bytes) -> str | None:
    """Return the dialect of a whole JSON document; None where it holds no items."""
    spans = split_list(body)
    if spans is None:
        row = row_of(body)
        return format_of_items(history_in(row) or []) if row is not None else None
    nested = [history for span in spans if (row := row_of(span)) is not None and (history := history_in(row)) is not None]
    return format_of_items([item for history in nested for item in history] if nested else spans)


def format_of_items(spans: Iterable[bytes]) -> str | None:
    """Return the dialect of items: the first that recognises one; the plainest where several would read them alike."""
    spoken = False
    for span in spans:
        row = row_of(span)
        if row is None:
            continue
        found = next((name for name, dialect in DIALECTS.items() if dialect.recognises(Item(span))), None)
        if found is not None:
            return found
        spoken = spoken or bool(text_in(row, "role"))
    return CHAT.name if spoken else None


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


LARGEST_DOCUMENT = 512 << 20
# What is looked at in a folder; a file that is named is looked at whatever it is called.
ENDINGS = (".jsonl", ".jsonl.zst", ".json", "state.db")

Source = LineReader | Callable[[], Iterator[Step]]
"""A reader that is fed lines, or a function that yields the steps of a file that is read as a whole."""


def source_of(path: Path, form: str | None) -> Source:
    """Return what reads `path`, as `form` or, without one, as what stands in it.

    Raises:
        UnknownFormat: Nothing in it says what it is.
        UnreadableTranscript: It cannot be opened.
    """
    if form == Format.HERMES or (form is None and is_sqlite(path)):
        return lambda: hermes_steps(path)
    beginning = sample(path)
    lines = beginning.split(b"\n")
    document = beginning.lstrip()[:1] == b"[" or (_first_is_cut(lines) and _is_one_value(beginning))
    if form is None:
        form = None if document else format_of_lines(lines)
    if form is not None and form not in DIALECTS:
        return _reader(form)
    if form is not None and not document:
        return PlainReader(form)
    body = whole_text(path, limit=LARGEST_DOCUMENT)
    found = form or format_of_document(body)
    if found is None:
        raise UnknownFormat(str(path), known=FORMATS)
    return lambda: iter(document_steps(body, dialect=found))


def _reader(form: str) -> LineReader:
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
