"""The formats that can be imported: told apart by the content of a file, with the reader of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from threadkeep.dialects import CHAT, DIALECTS
from threadkeep.dialects.raw_json import split_list
from threadkeep.errors import UnknownFormat
from threadkeep.items import Item
from threadkeep.transfer.claude_code_reader import ClaudeCodeReader
from threadkeep.transfer.codex_rollouts import CodexReader
from threadkeep.transfer.gemini_cli_reader import is_gemini_cli, read_gemini_cli
from threadkeep.transfer.hermes_reader import read_hermes
from threadkeep.transfer.json_rows import Row, get_text, parse_row
from threadkeep.transfer.pi_reader import PiReader
from threadkeep.transfer.plain_reader import PlainReader, find_history, read_document
from threadkeep.transfer.transcript_form import LineReader, Step
from threadkeep.transfer.transcript_lines import is_sqlite, read_whole, sample

SAMPLE_LINES = 64

CODEX_LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"})


class Format(StrEnum):
    """The files of clients that can be imported."""

    CODEX = "codex"
    CLAUDE_CODE = "claude-code"
    PI = "pi"
    HERMES = "hermes"
    GEMINI_CLI = "gemini-cli"


# Everything that can be imported: a client's files, or plain items of a dialect.
FORMATS: tuple[str, ...] = (*Format, *DIALECTS)


def detect_lines(lines: Sequence[bytes]) -> str | None:
    """Return the format of a file by its first lines; None if unknown."""
    rows = [row for row in (parse_row(line) for line in lines[:SAMPLE_LINES]) if row is not None]
    found = next((kind for row in rows if (kind := _detect_client(row)) is not None), None)
    if found is not None:
        return found
    items = [span for row in rows for span in (find_history(row) or [])] or [
        line for line in lines if parse_row(line) is not None
    ]
    return detect_items(items)


def detect_document(body: bytes) -> str | None:
    """Return the dialect of a whole JSON document; None if it has no items."""
    spans = split_list(body)
    if spans is None:
        row = parse_row(body)
        if row is not None and is_gemini_cli(row):
            return Format.GEMINI_CLI
        return detect_items(find_history(row) or []) if row is not None else None
    nested = [history for span in spans if (row := parse_row(span)) is not None and (history := find_history(row)) is not None]
    return detect_items([item for history in nested for item in history] if nested else spans)


def detect_items(spans: Iterable[bytes]) -> str | None:
    """Return the dialect of items: the first that recognises one; the plainest where several would read them alike."""
    spoken = False
    for span in spans:
        row = parse_row(span)
        if row is None:
            continue
        found = next((name for name, dialect in DIALECTS.items() if dialect.recognises(Item(span))), None)
        if found is not None:
            return found
        spoken = spoken or bool(get_text(row, "role"))
    return CHAT.name if spoken else None


def _detect_client(row: Row) -> Format | None:
    kind = get_text(row, "type")
    if kind in CODEX_LINES and "payload" in row:
        return Format.CODEX
    if kind == "session" and "timestamp" in row and "id" in row:
        return Format.PI
    if is_gemini_cli(row):
        return Format.GEMINI_CLI
    if "uuid" in row and ("sessionId" in row or "parentUuid" in row):
        return Format.CLAUDE_CODE
    if kind == "summary" and "leafUuid" in row:
        return Format.CLAUDE_CODE
    return None


LARGEST_DOCUMENT = 512 << 20
# File names that are imported from a folder; a file given by name may have any.
ENDINGS = (".jsonl", ".jsonl.zst", ".json", "state.db")

Source = LineReader | Callable[[], Iterator[Step]]
"""A reader of lines, or a function that yields the steps of a whole file."""


def choose_source(path: Path, form: str | None) -> Source:
    """Return the reader for `path`, by `form` or else by its content.

    Raises:
        UnknownFormat: The content has no known format.
        UnreadableTranscript: The file cannot be opened.
    """
    if form == Format.HERMES or (form is None and is_sqlite(path)):
        return lambda: read_hermes(path)
    beginning = sample(path)
    lines = beginning.split(b"\n")
    document = beginning.lstrip()[:1] == b"[" or (_is_first_cut(lines) and _is_one_value(beginning))
    if form is None:
        form = None if document else detect_lines(lines)
    if form is not None and form not in DIALECTS and form != Format.GEMINI_CLI:
        return _choose_reader(form)
    if form in DIALECTS and not document:
        return PlainReader(form)
    body = read_whole(path, limit=LARGEST_DOCUMENT)
    found = form or detect_document(body)
    if found == Format.GEMINI_CLI:
        return lambda: read_gemini_cli(body)
    if found is None:
        raise UnknownFormat(str(path), known=FORMATS)
    return lambda: iter(read_document(body, dialect=found))


def _choose_reader(form: str) -> LineReader:
    match form:
        case Format.CODEX:
            return CodexReader()
        case Format.CLAUDE_CODE:
            return ClaudeCodeReader()
        case Format.PI:
            return PiReader()
        case _:
            raise AssertionError(f"{form} is not read line by line")


def _is_first_cut(lines: list[bytes]) -> bool:
    first = next((line for line in lines if line.strip()), b"")
    return parse_row(first) is None


def _is_one_value(beginning: bytes) -> bool:
    """Whether a file looks like one JSON value over several lines, none of which is a value by itself."""
    return beginning.lstrip()[:1] == b"{" and not any(parse_row(line) for line in beginning.split(b"\n"))
