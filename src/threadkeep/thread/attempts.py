"""What was tried to compact a thread: what it cost together, and where it stands if no checkpoint came of it.

The attempts that led to a checkpoint are in it. Those that led to none are in a `reply` record of their own, beside the history:
models answered, and that was paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from threadkeep.errors.compacting import DraftAttempt
from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.thread.records import ReplyBody, decode_body


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What some attempts cost together. Tokens and cost are what was told of them; None where nobody told anything."""

    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_micro_usd: int | None
    took_ms: int


def bill_of(attempts: Sequence[DraftAttempt]) -> Bill:
    """Return what attempts cost together."""
    return Bill(
        calls=sum(each.calls for each in attempts),
        input_tokens=_told(each.input_tokens for each in attempts),
        output_tokens=_told(each.output_tokens for each in attempts),
        cached_tokens=_told(each.cached_tokens for each in attempts),
        cost_micro_usd=_told(each.cost_micro_usd for each in attempts),
        took_ms=sum(each.took_ms for each in attempts),
    )


def is_in_vain(record: Record | NewRecord) -> bool:
    """Whether a record says what a compaction cost that came to nothing.

    A reply with a target is: its `target` is the checkpoint that counted when it was made, 0 before the first. What a provider
    answers to a turn has none, so the two are told apart without their bodies.
    """
    return record.kind is RecordKind.REPLY and record.target is not None


def tried_in_vain(record: Record) -> ReplyBody | None:
    """Return what was tried for a compaction that came to nothing; None for another record, and where it cannot be read."""
    if not is_in_vain(record) or record.erased:
        return None
    try:
        return decode_body(record.body, ReplyBody)
    except msgspec.MsgspecError:
        return None


def _told(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
