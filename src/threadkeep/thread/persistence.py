"""Which records are worth keeping: one policy, above the store, which keeps what it is given.

Codex has had two modes, *limited* and *extended*, for what reaches a rollout; both keep the model-visible history, turn
boundaries, compactions and rollbacks, and they differ in how much is kept of what only a viewer would show. The same line
is drawn here. `limited` keeps all that a window, a fork, a rollback, an undo, the audit, `verify` and recall are computed
from, and of a provider's answer its figures: the client echoes the answer's items with its next request, and they are
history then. `extended` keeps the answer too, so that what was streamed and never echoed (a turn that was broken off, a
client that rewrote its answer) can still be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import assert_never

import msgspec

from threadkeep.store import NewRecord, RecordKind
from threadkeep.thread.records import ReplyBody, decode_body, encode_body
from threadkeep.thread.remarks import is_remark


class Persistence(StrEnum):
    """How much of a thread is kept."""

    LIMITED = "limited"
    EXTENDED = "extended"


def keep(records: Sequence[NewRecord], mode: Persistence) -> list[NewRecord]:
    """Return what is to be appended of `records`, in their order.

    A record is dropped or its body reduced, never moved; what is chained is always kept as it is, because the links after
    it rest on it. What was kept under one mode can be read, and appended to, under the other.
    """
    match mode:
        case Persistence.EXTENDED:
            return list(records)
        case Persistence.LIMITED:
            reduced = (record if record.chain is not None else _limited(record) for record in records)
            return [record for record in reduced if record is not None]
        case _:
            assert_never(mode)


def _limited(record: NewRecord) -> NewRecord | None:
    match record.kind:
        case (
            RecordKind.META
            | RecordKind.TURN
            | RecordKind.CONTEXT
            | RecordKind.ITEM
            | RecordKind.CHECKPOINT
            | RecordKind.UNDO
            | RecordKind.ROLLBACK
            | RecordKind.MAIL
        ):
            return record
        case RecordKind.REPLY:
            return _figures(record)
        case RecordKind.NOTE:
            # Unchained, it is said about the thread; only from what a person remarks is anything computed.
            return record if is_remark(record) else None
        case _:
            assert_never(record.kind)


def _figures(record: NewRecord) -> NewRecord:
    """Return a reply without the items it carried; the estimates of later requests are calibrated by the rest."""
    try:
        reply = decode_body(record.body, ReplyBody)
    except msgspec.MsgspecError:
        # Not a form this threadkeep knows: nothing can be told apart in it, so nothing is taken away.
        return record
    return replace(record, body=encode_body(msgspec.structs.replace(reply, items=[])))
