"""Named queries of a `.sql` file: `-- name: NAME` begins each, a semicolon ends it."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_queries(file: Path) -> dict[str, str]:
    """Return the queries of a file by their names."""
    _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
    return {name: text[: text.rindex(";")].strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
