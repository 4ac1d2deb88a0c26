"""What hooks say when a session goes on after a compaction, in the form in which its model is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect
from threadkeep.hooks import SessionFacts, run_hooks
from threadkeep.items import Item
from threadkeep.threads.agents import agent_names

SESSION_START: Final = "<session_start>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What SessionStart hooks want said, each in an item that is the host's, and why the turn is to end, if it is."""

    items: tuple[Item, ...] = ()
    stopped_by: str | None = None


async def run_start_hooks(
    backend: Backend, thread_id: str, *, dialect: Dialect, model: str | None, checkpoint: int | None
) -> Started:
    """Run the SessionStart hooks for a thread that goes on after `checkpoint`; nothing is recorded."""
    policy, whose = backend.policy, await agent_names(backend.store, thread_id)
    facts = SessionFacts(
        thread_id=thread_id,
        cwd=policy.cwd,
        source="compact",
        model=model or "",
        checkpoint=checkpoint,
        session_id=whose.session_id,
        agent_id=whose.agent_id,
        agent_type=whose.agent_type,
    )
    verdict = await run_hooks(policy.hooks, facts, environ=policy.environ)
    return Started(
        items=tuple(dialect.make_state_item(f"{SESSION_START}{text}</session_start>") for text in verdict.added_context),
        stopped_by=None if verdict.goes_on else verdict.stop_reason or "no reason given",
    )
