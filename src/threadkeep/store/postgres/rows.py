"""Rows as the values they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from threadkeep.store.base import Record, RecordKind, ThreadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What never changes about a thread, as a row with nothing appended yet, and its number."""

    number: int
    row: ThreadRow


def known_thread(row: tuple[Any, ...]) -> Known:
    number, name, dialect, created_at_ms, start, parent = row
    return Known(
        number=number,
        row=ThreadRow(
            id=name,
            dialect=dialect,
            created_at_ms=created_at_ms,
            updated_at_ms=created_at_ms,
            start=start,
            parent=parent,
            next=start,
        ),
    )


def thread_row(row: tuple[Any, ...]) -> ThreadRow:
    name, dialect, created_at_ms, updated_at_ms, start, parent, following = row
    return ThreadRow(
        id=name,
        dialect=dialect,
        created_at_ms=created_at_ms,
        updated_at_ms=updated_at_ms,
        start=start,
        parent=parent,
        next=following,
    )


def record(thread_id: str, row: tuple[Any, ...]) -> Record:
    ordinal, kind, at_ms, turn, tokens, data, digest, target, chain, depth, redacted, erased_at_ms = row
    return Record(
        thread_id=thread_id,
        ordinal=ordinal,
        kind=RecordKind(kind),
        at_ms=at_ms,
        turn=turn,
        tokens=tokens,
        body=bytes(data),
        digest=bytes(digest),
        target=target,
        chain=None if chain is None else bytes(chain),
        depth=depth,
        redacted=redacted,
        erased=erased_at_ms is not None,
    )
