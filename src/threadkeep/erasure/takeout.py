"""Writes everything a store has about a tenant as plain files."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.errors import UnusableFile
from threadkeep.items import format_digest
from threadkeep.memory.memory import Memories
from threadkeep.store import Record, RecordKind, Span, ThreadRow
from threadkeep.threads import Checkpoint, MetaBody
from threadkeep.threads.erasure_notes import read_erasure_note
from threadkeep.threads.reader import read_body

PAGE = 500
EVERY = 10_000_000
AUDIT = "audit.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """What was written."""

    folder: str
    tenant: str
    threads: int
    records: int
    memories: int = 0
    keys: int = 0
    erasures: int = 0


async def take_out(backend: Backend, folder: Path, *, keys: Sequence[str] = ()) -> TakenOut:
    """Write every record of every thread, one JSON object per line; the memory, as a page and in full; an audit log of
    checkpoints, undos, rollbacks and erasures; the names of the tenant's `keys`; and an index of threads.

    UTF-8 bodies are written as text, others as base64; erased records are marked. The tenant's secret key is left out.

    Raises:
        UnusableFile: The folder exists already, or cannot be made.
    """
    try:
        await asyncio.to_thread(lambda: (folder / "threads").mkdir(parents=True, mode=0o700))
    except OSError as error:
        reason = f"cannot be made anew: {error.strerror}; name a folder that is not there yet"
        raise UnusableFile(str(folder), reason=reason) from error
    rows = await backend.store.threads(limit=EVERY)
    counts = _Counts()
    await asyncio.to_thread((folder / AUDIT).write_bytes, b"")
    for row in rows:
        await _write_thread(backend, row, folder, counts)
    tenant = backend.store.tenant.name
    memories = Memories(backend)
    state = await memories.state()
    await asyncio.to_thread((folder / "memory.md").write_text, await memories.page(), encoding="utf-8")
    for name, value in (
        ("index.json", {"tenant": tenant, "threads": rows}),
        ("memory.json", {"now": state.snapshot, "pending": state.pending, "failures": state.failures}),
        ("keys.json", {"tenant": tenant, "keys": list(keys)}),
    ):
        await asyncio.to_thread((folder / name).write_bytes, msgspec.json.format(msgspec.json.encode(value), indent=2))
    return TakenOut(
        folder=str(folder),
        tenant=tenant,
        threads=len(rows),
        records=counts.records,
        memories=len(state.memories),
        keys=len(keys),
        erasures=counts.erasures,
    )


@dataclass(slots=True)
class _Counts:
    records: int = 0
    erasures: int = 0


async def _write_thread(backend: Backend, row: ThreadRow, folder: Path, counts: _Counts) -> None:
    path = folder / "threads" / f"{row.id}.jsonl"
    await asyncio.to_thread(path.write_bytes, b"")
    for start in range(row.start, row.next, PAGE):
        span = Span(thread_id=row.id, start=start, stop=min(start + PAGE, row.next))
        found = await backend.store.read(span)
        acts = [act for record in found if (act := _describe_act(record)) is not None]
        await asyncio.to_thread(_append, path, _render_lines(found))
        await asyncio.to_thread(_append, folder / AUDIT, [msgspec.json.encode(act) + b"\n" for act in acts])
        counts.records += len(found)
        counts.erasures += sum(act["act"] == "erasure" for act in acts)


def _describe_act(record: Record) -> dict[str, object] | None:
    """Return the audit entry of a record, without any content of the thread; None if it is no act."""
    told: dict[str, object] = {"thread": record.thread_id, "ordinal": record.ordinal, "at_ms": record.at_ms}
    match record.kind:
        case RecordKind.NOTE:
            note = None if record.erased else read_erasure_note(record.body)
            return None if note is None else {**told, "act": "erasure", "is": note}
        case RecordKind.CHECKPOINT:
            made = read_body(record, Checkpoint)
            fields = ("strategy", "trigger", "phase", "reason", "model", "figures")
            return {**told, "act": "checkpoint", **({name: getattr(made, name) for name in fields} if made else {"erased": True})}
        case RecordKind.META:
            about = read_body(record, MetaBody)
            return {**told, "act": "description", "archived": about.archived} if about else None
        case RecordKind.UNDO | RecordKind.ROLLBACK:
            return {**told, "act": record.kind.value, "target": record.target}
        case _:
            return None


def _append(path: Path, lines: Iterable[bytes]) -> None:
    with path.open("ab") as file:
        file.writelines(lines)


def _render_lines(records: Sequence[Record]) -> Iterator[bytes]:
    for record in records:
        told: dict[str, object] = {
            "ordinal": record.ordinal,
            "kind": record.kind,
            "at_ms": record.at_ms,
            "turn": record.turn,
            "tokens": record.tokens,
            "target": record.target,
            "depth": record.depth,
            "digest": format_digest(record.digest),
            "redacted": record.redacted,
            "erased": record.erased,
        }
        try:
            told["body"] = record.body.decode("utf-8")
        except UnicodeDecodeError:
            told["base64"] = base64.b64encode(record.body).decode("ascii")
        yield msgspec.json.encode(told) + b"\n"
