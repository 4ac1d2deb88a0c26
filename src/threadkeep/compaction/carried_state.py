"""What a thread remembers from before its client rewrote the history, for instance by compacting it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from threadkeep.compaction.audit import Audited, make_report
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.engine import remember
from threadkeep.compaction.ledger import Ledger, dump_ledger
from threadkeep.compaction.merge import merge_observed
from threadkeep.compaction.quotes import find_entries_said_again
from threadkeep.compaction.state_budget import StateFitter
from threadkeep.compaction.state_text import render_state
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.threads import Checkpoint, LivePath, StateEntry
from threadkeep.threads.reader import load_history, load_live_path
from threadkeep.tokens import estimate_item

STRATEGY = "carried"
REASON = "client_compaction"


async def load_carried_memory(backend: Backend, path: LivePath) -> Ledger | None:
    """Return the ledger of everything before a path's client rewrote its history; None if it did not.

    Costs as much as a compaction of that window without a model.
    """
    if path.rewritten is None:
        return None
    return (await _remember(backend, path.rewritten.thread_id, at=path.rewritten.ordinal)).ledger


async def carry_over(
    backend: Backend, thread_id: str, *, at: int, dialect: Dialect, said: Sequence[str], room_tokens: int
) -> Checkpoint | None:
    """Return a checkpoint for a history that a client rewrote at record `at`: it puts the state of the earlier one in front.

    Nothing of the new history is replaced. What people said in it (`said`) is not told twice. None if there is nothing to tell.
    """
    audited = await _remember(backend, thread_id, at=at)
    in_view = find_entries_said_again(audited.ledger, said)
    state = StateFitter(audited.ledger, budget=backend.policy.state_budget).fit(in_view=in_view, room_tokens=room_tokens)
    if all(entry.id in state.in_view | state.left_out for entry in state.entries):
        return None
    item = dialect.make_user_message(render_state(state))
    return Checkpoint(
        strategy=STRATEGY,
        cut=at,
        covers=0,
        layout=[StateEntry(item=msgspec.Raw(item.raw))],
        state=msgspec.Raw(dump_ledger(state)),
        audit=msgspec.Raw(msgspec.json.encode(make_report(audited, state))),
        figures={"tokens_after": estimate_item(item.raw), "model_calls": 0},
        trigger="auto",
        reason=REASON,
        remarks_to=at,
    )


async def _remember(backend: Backend, thread_id: str, *, at: int) -> Audited:
    path = await load_live_path(backend.store, thread_id, stop=at)
    history = await load_history(backend.store, path)
    carried = await load_carried_memory(backend, path) if history.checkpoint is None else None
    dialect = find_dialect((await backend.store.get(thread_id)).dialect)
    audited = await asyncio.to_thread(remember, history, dialect=dialect, carried=carried)
    closed = replace(audited.ledger, journal=audited.ledger.journal.drop_open_calls())
    return replace(audited, ledger=merge_observed(closed, ()))
