"""What was tried for a compaction, summed up and told from what a provider answered."""

from __future__ import annotations

import pytest

from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.threads import (
    Attempt,
    AttemptCost,
    ReplyBody,
    decode_body,
    encode_body,
    is_failed_attempt,
    read_failed_attempts,
    reduce_records,
    sum_attempts,
)
from threadkeep.threads.records import Persistence

PAID = Attempt(
    strategy="handoff",
    outcome="nothing_to_compact",
    model="openai:gpt-5",
    calls=2,
    input_tokens=900,
    output_tokens=40,
    cached_tokens=0,
    cost_micro_usd=7,
    took_ms=30,
)
UNTOLD = Attempt(strategy="session", outcome="timed_out", model="openai:gpt-5", calls=1, took_ms=20)
UNAIDED = Attempt(strategy="extractive", outcome="nothing_to_compact", took_ms=1)
BODY = encode_body(ReplyBody(items=[], outcome="nothing_to_compact", estimated_tokens=0, attempts=[UNTOLD, PAID, UNAIDED]))


def reply(body: bytes, *, target: int | None, kind: RecordKind = RecordKind.REPLY, erased: bool = False) -> Record:
    return Record(
        thread_id="t", ordinal=9, kind=kind, at_ms=3, turn=2, tokens=0, body=body, digest=b"", target=target, erased=erased
    )


def test_a_bill_is_what_was_told_and_says_where_nobody_did() -> None:
    """Zero is a figure, None is none; what one provider left out does not hide what another told."""
    told = AttemptCost(calls=3, input_tokens=900, output_tokens=40, cached_tokens=0, cost_micro_usd=7, took_ms=51)
    assert sum_attempts([UNTOLD, PAID, UNAIDED]) == told
    untold = AttemptCost(calls=1, input_tokens=None, output_tokens=None, cached_tokens=None, cost_micro_usd=None, took_ms=21)
    assert sum_attempts([UNTOLD, UNAIDED]) == untold


def test_what_was_tried_in_vain_is_read_back_whole() -> None:
    """Every figure, those that were not told among them."""
    body = read_failed_attempts(reply(BODY, target=0))
    assert body is not None
    assert (body.outcome, body.attempts) == ("nothing_to_compact", [UNTOLD, PAID, UNAIDED])


@pytest.mark.parametrize(
    "record",
    [
        reply(BODY, target=None),
        reply(BODY, target=4, kind=RecordKind.CHECKPOINT),
        reply(BODY, target=4, kind=RecordKind.NOTE),
    ],
)
def test_only_a_reply_with_a_target_is_one(record: Record) -> None:
    """It is known by its columns, whatever a body says."""
    assert (is_failed_attempt(record), read_failed_attempts(record)) == (False, None)


@pytest.mark.parametrize("record", [reply(b"", target=4, erased=True), reply(b"not json", target=4)])
def test_one_that_cannot_be_read_is_one_all_the_same(record: Record) -> None:
    """There is nothing to tell of it."""
    assert (is_failed_attempt(record), read_failed_attempts(record)) == (True, None)


def test_limited_keeps_what_was_tried_in_vain() -> None:
    """It is figures and nothing else."""
    record = NewRecord(kind=RecordKind.REPLY, at_ms=3, turn=2, tokens=0, body=BODY, target=0)
    assert reduce_records([record], Persistence.LIMITED) == [record]


def test_an_attempt_of_an_older_threadkeep_is_read() -> None:
    """It left out what was zero, and zero stood for what nobody told."""
    old = b'{"strategy":"handoff","outcome":"taken","model":"m","calls":1,"took_ms":5}'
    assert decode_body(old, Attempt) == Attempt(strategy="handoff", outcome="taken", model="m", calls=1, took_ms=5)
    counted = b'{"strategy":"handoff","outcome":"taken","calls":1,"input_tokens":0,"cost_micro_usd":0}'
    assert decode_body(counted, Attempt) == Attempt(
        strategy="handoff", outcome="taken", calls=1, input_tokens=0, cost_micro_usd=0
    )
