"""Rows: a line of a transcript as its fields, each with its exact bytes."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from hashlib import blake2b

from threadkeep.dialects.raw_json import join_object, read_value, split_object
from threadkeep.errors import InvalidThreadId
from threadkeep.threads import check_thread_id

Row = dict[str, bytes]

# Shorter than a thread id may be: a fork's name adds to it.
LONGEST_NAME = 90

_odd = re.compile(r"[^A-Za-z0-9._-]+")


def parse_row(line: bytes) -> Row | None:
    """Return the fields of a line; None if it is no JSON object in UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return None
    try:
        return split_object(line)
    except RecursionError:
        return None


def get_text(row: Row, name: str) -> str:
    """Return a field that is a string; empty for anything else."""
    value = read_value(row.get(name, b"null"))
    return value if isinstance(value, str) else ""


def get_number(row: Row, name: str) -> int | None:
    value = read_value(row.get(name, b"null"))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_true(row: Row, name: str) -> bool:
    return row.get(name) == b"true"


def drop_fields(row: Row, *names: str) -> bytes:
    """Return an object without these fields, the rest with its exact bytes."""
    return join_object({name: span for name, span in row.items() if name not in names})


def join_lines(raw: bytes) -> bytes:
    """Return JSON on one line; line ends occur only between its parts, never within a string."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")


def has_more(row: Row, known: Collection[str]) -> bool:
    """Whether a row has a field that is not among the known ones."""
    return any(name not in known for name in row)


def get_time_ms(row: Row, name: str = "timestamp") -> int | None:
    """Return a time in milliseconds, from RFC 3339 or a number of milliseconds; None for anything else."""
    value = read_value(row.get(name, b"null"))
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 1 << 62 else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))


def make_thread_name(text: str, *, prefix: str, content: bytes) -> str:
    """Return a thread id made of `text`, or else of the content, so that the same content has the same id."""
    try:
        return check_thread_id(_odd.sub("-", text).strip("-._")[:LONGEST_NAME])
    except InvalidThreadId:
        return f"{prefix}-{make_short_digest(content)}"


def make_short_digest(content: bytes) -> str:
    return blake2b(content, digest_size=6).hexdigest()
