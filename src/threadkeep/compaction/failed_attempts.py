"""What was paid for a compaction that came to nothing, written down beside the history: the bill outlives the error."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from threadkeep.compaction.backend import Backend
from threadkeep.errors import NotFound, StoreError
from threadkeep.store import Record, RecordKind, ThreadStore
from threadkeep.threads import Attempt, LivePath, ReplyBody, encode_body, is_failed_attempt, read_failed_attempts
from threadkeep.threads.reader import load_live_path
from threadkeep.threads.writer import append_beside

# How far back it is looked in each span of a path: a thread may hold as many answers as it has turns.
REPLIES_LOOKED_AT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InVain:
    """A compaction that asked a model and came to nothing."""

    record: Record
    tried: ReplyBody


async def write_down_in_vain(backend: Backend, thread_id: str, attempts: Sequence[Attempt], *, outcome: str) -> None:
    """Record what was tried for a compaction that ended with `outcome`, if a model was asked at all. Durable when it returns.

    Where the store cannot take it, nothing is written and nothing is raised: the caller has an error to raise that says what
    happened to the thread, and it carries the same attempts.
    """
    if not any(attempt.calls for attempt in attempts):
        return
    body = ReplyBody(items=[], outcome=outcome, estimated_tokens=0, attempts=list(attempts))
    with suppress(StoreError, NotFound):
        checkpoint = (await load_live_path(backend.store, thread_id)).checkpoint
        target = checkpoint.ordinal if checkpoint else 0
        await append_beside(backend, thread_id, RecordKind.REPLY, encode_body(body), target=target)


async def newest_in_vain(store: ThreadStore, path: LivePath, *, most: int) -> list[InVain]:
    """Return the newest compactions of a path that came to nothing, the newest first. Reads no other answer's body."""
    found: list[InVain] = []
    for span in path.spans:
        replies = await store.read(span, kinds={RecordKind.REPLY}, newest_first=True, limit=REPLIES_LOOKED_AT, bodies=False)
        ordinals = {record.ordinal for record in [each for each in replies if is_failed_attempt(each)][: most - len(found)]}
        for record in await store.read(span, ordinals=ordinals, newest_first=True) if ordinals else ():
            tried = read_failed_attempts(record)
            if tried is not None:
                found.append(InVain(record=record, tried=tried))
    return found
