"""Reads plain lists of provider items: one item a line, one request body a line, or a whole document.

A plain list has no name. Its thread is named by how it begins, up to a person's first message: a list that grew is found again,
and one that begins alike and continues differently becomes a fork.
"""

from __future__ import annotations

from threadkeep.dialects import DIALECTS, Dialect, find_dialect
from threadkeep.dialects.raw_json import encode_value, read_item, read_object, split_list
from threadkeep.transfer.json_rows import Row, drop_fields, get_text, make_short_digest, parse_row
from threadkeep.transfer.transcript_form import Lane, Note, PutItem, Step, Trouble

HISTORY_FIELDS = (*dict.fromkeys(dialect.history_field for dialect in DIALECTS.values()), "history", "items", "traj")
HELD_ITEMS = 64


class PlainReader:
    """Reads one item a line, or one request body a line; see `LineReader`."""

    def __init__(self, dialect: str) -> None:
        self._dialect = find_dialect(dialect)
        self._held: list[Step] = []
        self._begun = False

    def feed(self, line: bytes) -> list[Step]:
        if not line.strip():
            return []
        row = parse_row(line)
        if row is not None and (listed := _find_list(row)) is not None:
            name, spans = listed
            steps = read_list(spans, dialect=self._dialect.name)
            return [*steps, *_note_rest(row, name)]
        return self._take(line)

    def finish(self) -> list[Step]:
        steps, self._held = self._held, []
        if not steps or self._begun:
            return steps
        self._begun = True
        return [_make_lane(self._dialect, steps), *steps]

    def _take(self, line: bytes) -> list[Step]:
        item = read_item(line.strip())
        new: list[Step] = [PutItem(item=item)] if item else [Trouble(text="not a JSON object"), Note(body=line)]
        if self._begun:
            return new
        self._held.extend(new)
        told = item is not None and self._dialect.view(item).by_person
        return self.finish() if told or len(self._held) >= HELD_ITEMS else []


def read_document(body: bytes, *, dialect: str) -> list[Step]:
    """Return the steps of a whole JSON document: a list of items, a request body, or a list of either."""
    spans = split_list(body)
    if spans is None:
        row = parse_row(body)
        listed = _find_list(row) if row is not None else None
        if row is None or listed is None:
            return [Trouble(text="no list of items, and no object that holds one")]
        name, spans = listed
        return [*read_list(spans, dialect=dialect), *_note_rest(row, name)]
    if spans and all(_is_conversation(span) for span in spans):
        return [step for span in spans for step in read_document(span, dialect=dialect)]
    return read_list(spans, dialect=dialect)


def read_list(spans: list[bytes], *, dialect: str) -> list[Step]:
    """Return the steps of one conversation."""
    steps: list[Step] = []
    for span in spans:
        item = read_item(span)
        steps.extend([PutItem(item=item)] if item else [Trouble(text="not a JSON object"), Note(body=span)])
    return [_make_lane(find_dialect(dialect), steps), *steps] if steps else []


def find_history(row: Row) -> list[bytes] | None:
    """Return the items of an object that holds a history, such as a request body."""
    listed = _find_list(row)
    return listed[1] if listed else None


def _find_list(row: Row) -> tuple[str, list[bytes]] | None:
    if get_text(row, "role"):
        return None
    for name in HISTORY_FIELDS:
        spans = split_list(row.get(name, b"null"))
        if spans is not None and all(span.startswith(b"{") for span in spans):
            return name, spans
    return None


def _note_rest(row: Row, name: str) -> list[Step]:
    """Return a note with the fields beside a list, in one fixed spelling, however the file was formatted."""
    if len(row) <= 1:
        return []
    spelled = drop_fields(row, name)
    try:
        return [Note(body=encode_value(read_object(spelled)))]
    except RecursionError:
        return [Note(body=spelled)]


def _is_conversation(span: bytes) -> bool:
    row = parse_row(span)
    return row is not None and _find_list(row) is not None


def _make_lane(dialect: Dialect, steps: list[Step]) -> Lane:
    beginning: list[bytes] = []
    for step in steps:
        if isinstance(step, PutItem):
            beginning.append(dialect.canonical(step.item))
            if dialect.view(step.item).by_person or len(beginning) >= HELD_ITEMS:
                break
    return Lane(thread_id=f"{dialect.name}-{make_short_digest(bytes(1).join(beginning))}", dialect=dialect.name)
