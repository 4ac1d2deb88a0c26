"""Grows a thread in memory: the records a store would hold, and the windows made from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from benchmarks.story.generator import generate_session
from benchmarks.story.session import build_context_items, render_turn
from threadkeep.compaction import Outcome, compact
from threadkeep.dialects import Dialect
from threadkeep.items import digest_body, seed_chain
from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.threads import Checkpoint, History, Pointer, Tip, assemble, make_records
from threadkeep.threads.writer import make_arrival

THREAD = "bench"
TURNS_A_SESSION = 60
_KEY = bytes(range(32))


def session_turns(*, seed: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the turns of one session of the demo after another, each with demands of its own, without end."""
    yield build_context_items()
    numbers = count()
    for part in count():
        session = generate_session(seed=seed * 1_000 + part, turns=TURNS_A_SESSION)
        for turn in session.turns:
            yield render_turn(turn, number=next(numbers))


class Growing:
    """The records of one thread, and its newest checkpoint."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.tip = Tip(next=0, turn=0, depth=0, chain=seed_chain(_KEY, dialect=dialect.name))
        self._records: list[Record] = []
        self._checkpoint: Checkpoint | None = None
        self._compacted_at: int | None = None

    def add(self, items: Iterable[dict[str, Any]]) -> int:
        """Put items on the thread and return their tokens."""
        arrivals = [make_arrival(self.dialect, self.dialect.parse(item)) for item in items]
        first = self.tip.next
        new, self.tip = make_records(self.tip, arrivals, key=_KEY, at_ms=0)
        self._records.extend(_stored(record, ordinal) for ordinal, record in enumerate(new, start=first))
        return sum(record.tokens for record in new)

    def history(self) -> History:
        """Return the window: the newest checkpoint's layout and what came after its cut."""
        cut = self._checkpoint.cut if self._checkpoint else 0
        return assemble(
            checkpoint=self._checkpoint,
            checkpoint_ordinal=self._compacted_at,
            kept={Pointer(THREAD, record.ordinal): record for record in self._records} if self._checkpoint else {},
            after=self._records[_place(self._records, cut) :],
        )

    def compact(self) -> Outcome:
        """Compact the window without a model, and go on from there."""
        outcome = compact(self.history(), thread_id=THREAD, dialect=self.dialect, tip=self.tip)
        self._checkpoint, self._compacted_at = outcome.checkpoint, self.tip.next - 1
        return outcome


def _place(records: list[Record], ordinal: int) -> int:
    # Ordinals are counted from nought without a gap here.
    return min(ordinal, len(records))


def _stored(new: NewRecord, ordinal: int) -> Record:
    return Record(
        thread_id=THREAD,
        ordinal=ordinal,
        kind=RecordKind(new.kind),
        at_ms=new.at_ms,
        turn=new.turn,
        tokens=new.tokens,
        body=new.body,
        digest=digest_body(new.body),
        target=new.target,
        chain=new.chain,
        depth=new.depth,
    )
