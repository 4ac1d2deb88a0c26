"""The rows that every store is given: items of the story, drawn once and the same for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from benchmarks.story.generator import generate_session
from benchmarks.story.session import Turn, render_turn
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.items import seed_chain
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import Tip, make_records
from threadkeep.threads.writer import make_arrival

DIALECT = "responses"
SESSIONS = 4
TURNS_A_SESSION = 200
# Numbers of turns that no session counts to: items made with them are the same bytes in every thread.
ENDING_FROM = 1_000_000_000
# Rows of the append measures carry digests of this key; a store takes digests as they come and compares none.
_KEY = bytes(range(32))
_AT_MS = 1_760_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One item: as provider JSON for those who serialise it themselves, and as the record a store is given."""

    item: Mapping[str, Any]
    record: NewRecord

    @property
    def body(self) -> bytes:
        return self.record.body


class Workload:
    """Turns of items without end. The same seed gives the same bytes.

    The turns of a few sessions are repeated with ids, calls and opaque reasoning of their own each time, so that
    nearly every body is a new one: a store that keeps equal bodies once has no advantage that a real thread would not give.
    """

    def __init__(self, *, seed: int) -> None:
        self._seed = seed

    def turns(self) -> Iterator[list[dict[str, object]]]:
        """Yield the items of one turn after another."""
        told = [turn for part in range(SESSIONS) for turn in _session(self._seed * SESSIONS + part)]
        for number in count():
            yield render_turn(told[number % len(told)], number=number)

    def ending(self, turns: int) -> list[list[dict[str, object]]]:
        """Return turns that are the same bytes wherever they are asked for, and unlike any of `turns()`."""
        return [render_turn(turn, number=ENDING_FROM + at) for at, turn in enumerate(_session(self._seed * SESSIONS)[:turns])]

    def row_turns(self) -> Iterator[list[Row]]:
        """Yield one turn after another as rows; the record that marks a turn's beginning is left out, peers have none."""
        dialect = find_dialect(DIALECT)
        tip = Tip(next=0, turn=0, depth=0, chain=seed_chain(_KEY, dialect=DIALECT))
        for items in self.turns():
            records, tip = build_records(items, dialect=dialect, tip=tip, key=_KEY, at_ms=_AT_MS)
            kept = [record for record in records if record.kind is RecordKind.ITEM]
            yield [Row(item=item, record=record) for item, record in zip(items, kept, strict=True)]

    def rows(self) -> Iterator[Row]:
        """Yield one row after another."""
        for turn in self.row_turns():
            yield from turn


def build_records(
    items: list[dict[str, object]], *, dialect: Dialect, tip: Tip, key: bytes, at_ms: int
) -> tuple[list[NewRecord], Tip]:
    """Return the records the library would append for `items`, and the tip after them."""
    return make_records(tip, [make_arrival(dialect, dialect.parse(item)) for item in items], key=key, at_ms=at_ms)


@cache
def _session(seed: int) -> tuple[Turn, ...]:
    return generate_session(seed=seed, turns=TURNS_A_SESSION).turns
