"""The named queries of this package, as bytes: the driver takes bytes for literal SQL and refuses text that was put together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from threadkeep.store.queries import load_queries

SQL_FOLDER: Final = Path(__file__).with_name("sql")
QUERIES: Final = {name: sql.encode() for name, sql in load_queries(SQL_FOLDER / "queries.sql").items()}
