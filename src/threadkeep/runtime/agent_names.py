"""Whose thread it is, as hooks are told: the agent a person speaks to, or a sub-agent, and of which session."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.errors import ThreadNotFound
from threadkeep.runtime.agents import children_of
from threadkeep.runtime.reading import readable
from threadkeep.store import RecordKind, Span, ThreadStore
from threadkeep.thread import MetaBody


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNames:
    """The agent of a thread; see `threadkeep.hooks.CompactionFacts`. All None for one that is nobody's sub-agent."""

    session_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None


async def agent_names(store: ThreadStore, thread_id: str) -> AgentNames:
    """Return whose thread it is.

    A thread that another's agent spawned is known by its own id, by the name it was spawned under, and by the thread at the root
    of them all. One that a client's sub-agent has through a gateway is known by what the client calls that.
    """
    meta = await _meta(store, thread_id)
    if meta is None or meta.spawned_by is None:
        return AgentNames(agent_id=meta.agent) if meta is not None and meta.agent else AgentNames()
    root, seen = meta.spawned_by, {thread_id}
    while root not in seen:
        seen.add(root)
        above = await _meta(store, root)
        root = above.spawned_by if above is not None and above.spawned_by is not None else root
    return AgentNames(session_id=root, agent_id=thread_id, agent_type=await _name(store, meta.spawned_by, thread_id))


async def _name(store: ThreadStore, parent: str, child: str) -> str | None:
    try:
        edges = await children_of(store, parent)
    except ThreadNotFound:
        return None
    return next((edge.name for edge in edges if edge.child == child and edge.name), None)


async def _meta(store: ThreadStore, thread_id: str) -> MetaBody | None:
    """Return what a thread was made as; None where it is gone."""
    try:
        row = await store.get(thread_id)
    except ThreadNotFound:
        return None
    for record in await store.read(Span(thread_id=thread_id, start=row.start, stop=row.start + 1), kinds={RecordKind.META}):
        return readable(record, MetaBody)
    return None
