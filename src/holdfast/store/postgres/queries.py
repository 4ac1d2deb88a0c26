"""The `.sql` files beside this package: named queries, loaded once, and numbered migrations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SQL_FOLDER: Final = Path(__file__).with_name("sql")
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _load() -> dict[str, bytes]:
    _, *parts = _NAME.split((SQL_FOLDER / "queries.sql").read_text(encoding="utf-8"))
    return {name: text[: text.rindex(";")].strip().encode() for name, text in zip(parts[::2], parts[1::2], strict=True)}


# As bytes: the driver takes them for literal SQL, and refuses a text that was put together.
QUERIES: Final = _load()


def migrations() -> Mapping[int, bytes]:
    """Return the migrations by the version each leads to."""
    return {int(path.name[:4]): path.read_bytes() for path in sorted(SQL_FOLDER.glob("[0-9]*.sql"))}
