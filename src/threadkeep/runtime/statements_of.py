"""What a thread says that could be remembered: what people said in it, and what its state settled."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.compaction import Section, Speaker, ledger_of
from threadkeep.compaction.secrets import masked
from threadkeep.compaction.speech import is_acknowledgement, may_bind, shorten
from threadkeep.dialects import Dialect
from threadkeep.items import ItemKind
from threadkeep.memory import Candidate
from threadkeep.memory.records import memory_id
from threadkeep.runtime.reading import live_path, load_history
from threadkeep.store import ThreadStore
from threadkeep.thread import EntryKind

mask = masked


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """What a thread holds to, oldest first, and the names of what it held to once and took back."""

    candidates: tuple[Candidate, ...]
    superseded: tuple[str, ...] = ()


async def statements_of(store: ThreadStore, thread_id: str, *, dialect: Dialect) -> Statements:
    """Return what a thread says now. Costs its window, not its history: the ledger carries what came before.

    Only people's own messages and what the session settled count: no tool output, no host's context, no reasoning.

    Raises:
        StoreCorrupt, RecordNotFound: The thread has no window.
    """
    history = await load_history(store, await live_path(store, thread_id))
    ledger = ledger_of(history)
    held = [entry for entry in ledger.section(Section.ACTIVE) if entry.sources and entry.speaker in (Speaker.USER, Speaker.MODEL)]
    found = {
        entry.text: Candidate(
            text=entry.text,
            source=str(entry.sources[-1]),
            by_user=entry.speaker is Speaker.USER,
            binds=entry.speaker is Speaker.MODEL or entry.noted or entry.pinned or may_bind(entry.text),
        )
        for entry in held
    }
    for placed in history.entries:
        view = dialect.view(placed.item)
        is_message = view.kind is ItemKind.MESSAGE and view.by_person and placed.kind is not EntryKind.STUB
        if placed.source is not None and is_message and not is_acknowledgement(view.said):
            text = shorten(view.said)
            found[text] = Candidate(text=text, source=str(placed.source), by_user=True, binds=may_bind(text))
    gone = tuple(memory_id(masked(entry.text)) for entry in ledger.section(Section.INACTIVE))
    standing = tuple(each for each in found.values() if memory_id(masked(each.text)) not in gone)
    return Statements(candidates=standing, superseded=gone)
