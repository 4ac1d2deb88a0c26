"""From a file to the reader that understands it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from threadkeep.errors import UnknownFormat
from threadkeep.transfer.claude_code import ClaudeCodeReader
from threadkeep.transfer.codex import CodexReader
from threadkeep.transfer.detecting import PLAIN, Format, format_of_document, format_of_lines
from threadkeep.transfer.files import is_sqlite, sample, whole_text
from threadkeep.transfer.hermes import hermes_steps
from threadkeep.transfer.pi import PiReader
from threadkeep.transfer.plain import PlainReader, document_steps
from threadkeep.transfer.rows import row_of
from threadkeep.transfer.steps import LineReader, Step

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
