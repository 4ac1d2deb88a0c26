"""What people say about the session state beside the conversation: notes, and pins on what must stay.

Each is one `note` record, append-only like everything else: to take a pin away is another record, and one that a rollback left
behind no longer counts. What a remark makes of the state is decided in `threadkeep.compaction.remarks`.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.thread.pointer import Pointer
from threadkeep.thread.records import Checkpoint, RemarkBody, decode_remark


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One remark, where it stands, and the checkpoint whose state the person was looking at; None before the first."""

    source: Pointer
    body: RemarkBody
    seen: Checkpoint | None = None


def is_remark(record: Record | NewRecord) -> bool:
    """Whether a record is a person's remark.

    A note with a target is: its `target` is the checkpoint that counted when it was made, 0 before the first. Importers and
    gateways write notes without one, so nothing that stands in a transcript can pin or speak for a person.
    """
    return record.kind is RecordKind.NOTE and record.chain is None and record.target is not None


def remark_of(record: Record, *, seen: Checkpoint | None = None) -> Remark | None:
    """Return the remark a record holds; None where it holds none, was erased, or cannot be read."""
    if not is_remark(record) or record.erased:
        return None
    try:
        body = decode_remark(record.body)
    except msgspec.MsgspecError:
        return None
    return Remark(source=Pointer(record.thread_id, record.ordinal), body=body, seen=seen)
