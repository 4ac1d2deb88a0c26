"""The `.sql` files beside this package: named queries, loaded once, and scripts taken statement by statement."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

SQL_FOLDER = Path(__file__).with_name("sql")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _load() -> dict[str, str]:
    _, *parts = _NAME.split((SQL_FOLDER / "queries.sql").read_text(encoding="utf-8"))
    return {name: text[: text.rindex(";")].strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


QUERIES = _load()


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one.

    `executescript` would do it, but it commits first; a migration must stay inside the caller's transaction.
    """
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending.strip()
            pending = ""
    if pending.strip():
        raise ValueError(f"the script ends inside a statement: {pending.strip()[:80]!r}")
