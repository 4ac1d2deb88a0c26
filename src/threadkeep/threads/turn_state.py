"""The state of a turn, computed from its items and records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import assert_never

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind, Role, View
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import LivePath, TurnBody
from threadkeep.threads.reader import find_turn_back, load_live_path, read_body
from threadkeep.threads.records import TurnEndBody, read_mail_record

COMMENTARY = "commentary"


class TurnState(StrEnum):
    """The state of a turn.

    `OPENED`: the input is recorded, and no answer yet. `SAMPLING`: the model is to continue. `TOOLS`: calls wait for outputs.
    `COMMITTED`: the answer is recorded, and nothing later changes it. `CLOSED`, `ABORTED`: the turn is over.
    """

    OPENED = "opened"
    SAMPLING = "sampling"
    TOOLS = "tools"
    COMMITTED = "committed"
    CLOSED = "closed"
    ABORTED = "aborted"


class Phase(StrEnum):
    """The turn that new mail belongs to."""

    CURRENT_TURN = "current_turn"
    NEXT_TURN = "next_turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a turn, computed from its items.

    Attributes:
        waiting: Calls without an output.
        may_break: The last item was reasoning or commentary, so waiting mail may interrupt the answer.
        called: The model made a call since it was last asked, so it must be asked again.
    """

    state: TurnState = TurnState.OPENED
    waiting: frozenset[str] = frozenset()
    may_break: bool = False
    called: bool = False

    @property
    def phase(self) -> Phase:
        over = self.state in (TurnState.COMMITTED, TurnState.CLOSED, TurnState.ABORTED)
        return Phase.NEXT_TURN if over else Phase.CURRENT_TURN

    def asked(self) -> Progress:
        """Return the progress when the model is asked again."""
        return replace(self, called=False, may_break=False)

    def after(self, view: View, *, commentary: bool = False) -> Progress:
        """Return the progress after one more item; `commentary` marks a message that is not the answer."""
        waiting = (self.waiting | frozenset(view.opens)) - frozenset(view.closes)
        going_on = TurnState.TOOLS if waiting else TurnState.SAMPLING
        match view.kind:
            case ItemKind.CALL:
                return Progress(state=going_on, waiting=waiting, called=True)
            case ItemKind.OUTPUT:
                return replace(self, state=going_on, waiting=waiting, may_break=False)
            case ItemKind.REASONING:
                return replace(self, state=going_on, waiting=waiting, may_break=True)
            case ItemKind.OPAQUE:
                return replace(self, state=going_on, waiting=waiting, may_break=False)
            case ItemKind.MESSAGE if view.role is Role.ASSISTANT:
                said = bool(view.text.strip()) and not commentary and not waiting
                return replace(self, state=TurnState.COMMITTED if said else going_on, waiting=waiting, may_break=commentary)
            case ItemKind.MESSAGE:
                # A message after the answer reopens the turn; before any answer it is part of the input.
                reopened = self.state if self.state is TurnState.OPENED else going_on
                return replace(self, state=reopened, waiting=waiting, may_break=False)
            case _:
                assert_never(view.kind)


def track_progress(items: Iterable[tuple[Item, View]], *, begun: Progress | None = None) -> Progress:
    """Return the progress of a turn after these items."""
    progress = begun or Progress()
    for item, view in items:
        progress = progress.after(view, commentary=is_commentary(item))
    return progress


def decide_state(progress: Progress, *, ended: str | None, is_newest: bool) -> TurnState:
    """Return the state of a turn: its recorded end if it has one.

    A turn without a recorded end (its process died) that another turn follows is closed if it has an answer, else aborted.
    """
    if ended is not None:
        return TurnState.CLOSED if ended == TurnState.CLOSED else TurnState.ABORTED
    if is_newest:
        return progress.state
    return TurnState.CLOSED if progress.state is TurnState.COMMITTED else TurnState.ABORTED


class _Phased(msgspec.Struct):
    phase: str | None = None


_PHASED = msgspec.json.Decoder(_Phased)


def is_commentary(item: Item) -> bool:
    """Whether a message is marked as commentary, as the Responses API does."""
    try:
        return _PHASED.decode(item.raw).phase == COMMENTARY
    except msgspec.MsgspecError:
        return False


TOLD_BY = frozenset({RecordKind.TURN, RecordKind.ITEM, RecordKind.MAIL})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStatus:
    """A turn: its number, first record, state and progress, and the reason if it was aborted.

    `thread` is the thread that holds the first record; it differs from the one asked about if the turn began before a fork.
    """

    number: int
    thread: str
    ordinal: int
    state: TurnState
    progress: Progress
    opened_by: str = ""
    reason: str = ""


async def load_newest_turn(store: ThreadStore, thread_id: str, *, dialect: Dialect) -> TurnStatus | None:
    """Return the current or last turn of a thread. Reads only that turn."""
    path = await load_live_path(store, thread_id, whole=True)
    begun = await find_turn_back(store, path, turns=1)
    if begun is None:
        return None
    return _read_turns(await _load_records(store, path, start=begun.ordinal), dialect=dialect)[-1]


async def load_turns(store: ThreadStore, thread_id: str, *, dialect: Dialect) -> list[TurnStatus]:
    """Return every turn of a thread's live path, oldest first. Reads all of it."""
    path = await load_live_path(store, thread_id, whole=True)
    return _read_turns(await _load_records(store, path, start=0), dialect=dialect)


async def _load_records(store: ThreadStore, path: LivePath, *, start: int) -> list[Record]:
    found: list[Record] = []
    for span in reversed(path.spans):
        if span.stop > start:
            part = Span(thread_id=span.thread_id, start=max(start, span.start), stop=span.stop)
            found.extend(await store.read(part, kinds=TOLD_BY))
    return found


def _read_turns(records: list[Record], *, dialect: Dialect) -> list[TurnStatus]:
    openings = [at for at, record in enumerate(records) if record.kind is RecordKind.TURN]
    bounds = pairwise([*openings, len(records)])
    return [_read_turn(records[at:stop], is_newest=stop == len(records), dialect=dialect) for at, stop in bounds]


def _read_turn(records: list[Record], *, is_newest: bool, dialect: Dialect) -> TurnStatus:
    opening = records[0]
    opened = read_body(opening, TurnBody)
    ends = [body for record in records if isinstance(body := read_mail_record(record), TurnEndBody) and body.turn == opening.turn]
    items = [Item(record.body) for record in records if record.kind is RecordKind.ITEM and not record.erased]
    progress = track_progress((item, dialect.view(item)) for item in items)
    return TurnStatus(
        number=opening.turn,
        thread=opening.thread_id,
        ordinal=opening.ordinal,
        state=decide_state(progress, ended=ends[-1].outcome if ends else None, is_newest=is_newest),
        # Once the answer is there, earlier calls are settled.
        progress=progress.asked() if progress.state is TurnState.COMMITTED else progress,
        opened_by=opened.opened_by if opened else "",
        reason=ends[-1].reason if ends else "",
    )
