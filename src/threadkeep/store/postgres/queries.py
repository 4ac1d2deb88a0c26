"""The `.sql` files beside this package: named queries, loaded once, and numbered migrations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

SQL_FOLDER: Final = Path(__file__).with_name("sql")
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_FILE: Final = re.compile(r"(\d{4})_(pre|post)_\w+\.sql")

Phase = Literal["pre", "post"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema. `pre` only adds, so that processes of the release before go on beside it; `post` takes away what
    they needed, and waits until none is left."""

    version: int
    phase: Phase
    sql: bytes


def _load() -> dict[str, bytes]:
    _, *parts = _NAME.split((SQL_FOLDER / "queries.sql").read_text(encoding="utf-8"))
    return {name: text[: text.rindex(";")].strip().encode() for name, text in zip(parts[::2], parts[1::2], strict=True)}


# As bytes: the driver takes them for literal SQL, and refuses a text that was put together.
QUERIES: Final = _load()


def _migrations() -> tuple[Migration, ...]:
    named = [(path, match) for path in sorted(SQL_FOLDER.glob("*.sql")) if (match := _FILE.fullmatch(path.name))]
    return tuple(Migration(version=int(match[1]), phase=cast("Phase", match[2]), sql=path.read_bytes()) for path, match in named)


MIGRATIONS: Final = _migrations()
