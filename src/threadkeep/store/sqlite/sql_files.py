"""The `.sql` files of this package: named queries, and scripts split into statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from threadkeep.store.queries import load_queries

SQL_FOLDER = Path(__file__).with_name("sql")
QUERIES = load_queries(SQL_FOLDER / "queries.sql")


def split_statements(script: str) -> Iterator[str]:
    """Yield the statements of a script.

    `executescript` commits first; a migration must stay inside the caller's transaction.
    """
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending.strip()
            pending = ""
    if pending.strip():
        raise ValueError(f"the script ends inside a statement: {pending.strip()[:80]!r}")
