"""Where turns stand, as a store's records tell: after a crash too."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from threadkeep.dialects import Dialect
from threadkeep.items import Item
from threadkeep.runtime.reading import live_path, readable, turns_back
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.thread import LivePath, TurnBody
from threadkeep.thread.mailbox import correspondence
from threadkeep.thread.phases import Progress, TurnState, progress_of, settled
from threadkeep.thread.records import TurnEndBody

TOLD_BY = frozenset({RecordKind.TURN, RecordKind.ITEM, RecordKind.MAIL})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStanding:
    """A turn: its number, the record it begins with, where it stands, and why it ended if somebody said so.

    `thread` is another than the one that was asked about where the turn began before a fork.
    """

    number: int
    thread: str
    ordinal: int
    state: TurnState
    progress: Progress
    opened_by: str = ""
    reason: str = ""


async def newest_turn(store: ThreadStore, thread_id: str, *, dialect: Dialect) -> TurnStanding | None:
    """Return the turn a thread is in, or was in last. Costs what that turn holds."""
    path = await live_path(store, thread_id, whole=True)
    begun = await turns_back(store, path, turns=1)
    if begun is None:
        return None
    return _standings(await _records(store, path, start=begun.ordinal), dialect=dialect)[-1]


async def every_turn(store: ThreadStore, thread_id: str, *, dialect: Dialect) -> list[TurnStanding]:
    """Return every turn of a thread's live path, oldest first. Reads all of it."""
    path = await live_path(store, thread_id, whole=True)
    return _standings(await _records(store, path, start=0), dialect=dialect)


async def _records(store: ThreadStore, path: LivePath, *, start: int) -> list[Record]:
    found: list[Record] = []
    for span in reversed(path.spans):
        if span.stop > start:
            part = Span(thread_id=span.thread_id, start=max(start, span.start), stop=span.stop)
            found.extend(await store.read(part, kinds=TOLD_BY))
    return found


def _standings(records: list[Record], *, dialect: Dialect) -> list[TurnStanding]:
    openings = [at for at, record in enumerate(records) if record.kind is RecordKind.TURN]
    bounds = pairwise([*openings, len(records)])
    return [_standing(records[at:stop], is_newest=stop == len(records), dialect=dialect) for at, stop in bounds]


def _standing(records: list[Record], *, is_newest: bool, dialect: Dialect) -> TurnStanding:
    opening = records[0]
    opened = readable(opening, TurnBody)
    ends = [body for record in records if isinstance(body := correspondence(record), TurnEndBody) and body.turn == opening.turn]
    items = [Item(record.body) for record in records if record.kind is RecordKind.ITEM and not record.erased]
    progress = progress_of((item, dialect.view(item)) for item in items)
    return TurnStanding(
        number=opening.turn,
        thread=opening.thread_id,
        ordinal=opening.ordinal,
        state=settled(progress, ended=ends[-1].outcome if ends else None, is_newest=is_newest),
        # With its answer there, whatever it called before has been gone on with.
        progress=progress.asked() if progress.state is TurnState.COMMITTED else progress,
        opened_by=opened.opened_by if opened else "",
        reason=ends[-1].reason if ends else "",
    )
