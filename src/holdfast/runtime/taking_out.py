"""Everything a store has about a tenant, as files that need no holdfast to be read."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.errors import BadInput
from holdfast.items import written
from holdfast.runtime.backend import Backend
from holdfast.runtime.remembering import Memories
from holdfast.store import Record, Span, ThreadRow

PAGE = 500
EVERY = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """What was written down."""

    folder: str
    tenant: str
    threads: int
    records: int


async def take_out(backend: Backend, folder: Path) -> TakenOut:
    """Write every record of every thread, one JSON object a line, the memory as a page, and an index of threads.

    Bodies that are UTF-8 stand as text, others as base64; what was erased says so. The tenant's key is not among it.

    Raises:
        BadInput: The folder is there already, or cannot be made.
    """
    try:
        await asyncio.to_thread(lambda: (folder / "threads").mkdir(parents=True, mode=0o700))
    except OSError as error:
        raise BadInput(f"{folder} cannot be made anew: {error.strerror}; name a folder that is not there yet") from error
    rows = await backend.store.threads(limit=EVERY)
    records = 0
    for row in rows:
        records += await _thread(backend, row, folder / "threads" / f"{row.id}.jsonl")
    index = {"tenant": backend.store.tenant.name, "threads": rows}
    page = await Memories(backend).page()
    await asyncio.to_thread((folder / "index.json").write_bytes, msgspec.json.format(msgspec.json.encode(index), indent=2))
    await asyncio.to_thread((folder / "memory.md").write_text, page, encoding="utf-8")
    return TakenOut(folder=str(folder), tenant=backend.store.tenant.name, threads=len(rows), records=records)


async def _thread(backend: Backend, row: ThreadRow, path: Path) -> int:
    count = 0
    await asyncio.to_thread(path.write_bytes, b"")
    for start in range(row.start, row.next, PAGE):
        span = Span(thread_id=row.id, start=start, stop=min(start + PAGE, row.next))
        found = await backend.store.read(span)
        await asyncio.to_thread(_append, path, found)
        count += len(found)
    return count


def _append(path: Path, records: Sequence[Record]) -> None:
    with path.open("ab") as file:
        file.writelines(_lines(records))


def _lines(records: Sequence[Record]) -> Iterator[bytes]:
    for record in records:
        told: dict[str, object] = {
            "ordinal": record.ordinal,
            "kind": record.kind,
            "at_ms": record.at_ms,
            "turn": record.turn,
            "tokens": record.tokens,
            "target": record.target,
            "depth": record.depth,
            "digest": written(record.digest),
            "redacted": record.redacted,
            "erased": record.erased,
        }
        try:
            told["body"] = record.body.decode("utf-8")
        except UnicodeDecodeError:
            told["base64"] = base64.b64encode(record.body).decode("ascii")
        yield msgspec.json.encode(told) + b"\n"
