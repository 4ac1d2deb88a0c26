"""What a hook is told.

The keys on the outside are those Codex gives its hooks, so that a hook written for Codex works unchanged; what only threadkeep
knows stands under the one key `threadkeep`. Nothing of a transcript is told, and no path but the working directory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

Trigger = Literal["manual", "auto"]
StartSource = Literal["startup", "resume", "clear", "compact"]


class HookEvent(StrEnum):
    """When a hook runs."""

    PRE_COMPACT = "PreCompact"
    POST_COMPACT = "PostCompact"
    SESSION_START = "SessionStart"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFacts:
    """What is known of a compaction before it begins; after it was committed, `afterwards` adds the rest.

    Attributes:
        turn_id: The turn the compaction belongs to, as a text.
        cwd: The working directory the agent is in, and the one commands are run in.
        model: The thread's model; empty where it is not known.
        trigger: Whether a person asked for it; matchers are held against this.
        reason: Why it runs: `user_requested`, `context_limit`, `model_downshift` and the like.
        phase: Where in a turn it stands: `standalone_turn`, `pre_turn`, `mid_turn` and the like.
        strategy: What was asked for; after it was committed, what it came to.
        session_id: The thread of the agent at the root, where this is a sub-agent's; None where it is its own.
        agent_id: The sub-agent whose thread it is, if it is one's.
        agent_type: What that one was called when it was made, if anything.
    """

    thread_id: str
    turn_id: str
    cwd: str
    trigger: Trigger
    reason: str
    phase: str
    strategy: str
    tokens_before: int
    model: str = ""
    session_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    event: Literal[HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT] = HookEvent.PRE_COMPACT
    tokens_after: int | None = None
    checkpoint: int | None = None
    fell_back_from: str | None = None

    @property
    def subject(self) -> str:
        """What a matcher is held against."""
        return self.trigger

    def afterwards(self, *, strategy: str, fell_back_from: str | None, tokens_after: int, checkpoint: int) -> CompactionFacts:
        """Return what a PostCompact hook is told: the same, and what became of it."""
        return replace(
            self,
            event=HookEvent.POST_COMPACT,
            strategy=strategy,
            fell_back_from=fell_back_from,
            tokens_after=tokens_after,
            checkpoint=checkpoint,
        )

    def payload(self) -> dict[str, object]:
        """Return the facts as the JSON object a command reads."""
        told: dict[str, object] = {
            "session_id": self.session_id or self.thread_id,
            "turn_id": self.turn_id,
            **_agent(self),
            "transcript_path": None,
            "cwd": self.cwd,
            "hook_event_name": str(self.event),
            "model": self.model,
            "trigger": self.trigger,
        }
        own: dict[str, object] = {
            "thread": self.thread_id,
            "reason": self.reason,
            "phase": self.phase,
            "strategy": self.strategy,
            "tokens_before": self.tokens_before,
        }
        if self.event is HookEvent.POST_COMPACT:
            own |= {"tokens_after": self.tokens_after, "checkpoint": self.checkpoint, "fell_back_from": self.fell_back_from}
        return {**told, "threadkeep": own}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What is known when a thread goes on: `source` says what came before, `compact` after a compaction.

    Attributes:
        checkpoint: The checkpoint its window now begins with, if any.
        session_id, agent_id, agent_type: As `CompactionFacts` has them.
    """

    thread_id: str
    cwd: str
    source: StartSource
    model: str = ""
    checkpoint: int | None = None
    session_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None

    @property
    def event(self) -> Literal[HookEvent.SESSION_START]:
        return HookEvent.SESSION_START

    @property
    def subject(self) -> str:
        """What a matcher is held against."""
        return self.source

    def payload(self) -> dict[str, object]:
        """Return the facts as the JSON object a command reads."""
        return {
            "session_id": self.session_id or self.thread_id,
            **_agent(self),
            "transcript_path": None,
            "cwd": self.cwd,
            "hook_event_name": str(self.event),
            "model": self.model,
            # threadkeep asks nobody for permission; a hook that reads the key finds the mode every host has.
            "permission_mode": "default",
            "source": self.source,
            "threadkeep": {"thread": self.thread_id, "checkpoint": self.checkpoint},
        }


Facts = CompactionFacts | SessionFacts


def _agent(facts: Facts) -> dict[str, object]:
    """Return what names a sub-agent: both keys, or neither."""
    return {} if facts.agent_id is None else {"agent_id": facts.agent_id, "agent_type": facts.agent_type or ""}
