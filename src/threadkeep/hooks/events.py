"""The events a hook runs on, and the facts it receives.

The outer keys are those Codex gives its hooks, so that a hook written for Codex works unchanged; facts only threadkeep has are
under the one key `threadkeep`. A hook receives no part of a transcript, and no path but the working directory.
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
class _ThreadFacts:
    """The thread an event is about.

    Attributes:
        cwd: The working directory of the agent, and of commands.
        model: The thread's model; empty if it is not known.
        session_id: For a sub-agent's thread, the thread of the agent at the root; else None.
        agent_id: The sub-agent whose thread it is, if it is one's.
        agent_type: The type that sub-agent was made with, if any.
    """

    thread_id: str
    cwd: str
    model: str = ""
    session_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None

    def _name_session(self, event: HookEvent) -> dict[str, object]:
        """Return the outer keys of every event; those of a sub-agent are both there, or neither."""
        agent = {} if self.agent_id is None else {"agent_id": self.agent_id, "agent_type": self.agent_type or ""}
        return {
            "session_id": self.session_id or self.thread_id,
            **agent,
            "transcript_path": None,
            "cwd": self.cwd,
            "hook_event_name": str(event),
            "model": self.model,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFacts(_ThreadFacts):
    """The facts of a compaction before it begins; once it is committed, `complete` adds the rest.

    Attributes:
        turn_id: The turn the compaction belongs to, as a text.
        trigger: Whether a person asked for it; matchers are compared with this.
        reason: Why it runs: `user_requested`, `context_limit`, `model_downshift` and the like.
        phase: Where in a turn it runs: `standalone_turn`, `pre_turn`, `mid_turn` and the like.
        strategy: The one asked for; once it is committed, the one that was used.
    """

    turn_id: str
    trigger: Trigger
    reason: str
    phase: str
    strategy: str
    tokens_before: int
    event: Literal[HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT] = HookEvent.PRE_COMPACT
    tokens_after: int | None = None
    checkpoint: int | None = None
    fell_back_from: str | None = None

    @property
    def subject(self) -> str:
        """What a matcher is compared with."""
        return self.trigger

    def complete(self, *, strategy: str, fell_back_from: str | None, tokens_after: int, checkpoint: int) -> CompactionFacts:
        """Return the facts for PostCompact hooks: the same, and the result."""
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
        own: dict[str, object] = {
            "thread": self.thread_id,
            "reason": self.reason,
            "phase": self.phase,
            "strategy": self.strategy,
            "tokens_before": self.tokens_before,
        }
        if self.event is HookEvent.POST_COMPACT:
            own |= {"tokens_after": self.tokens_after, "checkpoint": self.checkpoint, "fell_back_from": self.fell_back_from}
        return {**self._name_session(self.event), "turn_id": self.turn_id, "trigger": self.trigger, "threadkeep": own}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts(_ThreadFacts):
    """The facts when a thread starts or goes on: `source` says why, `compact` after a compaction.

    Attributes:
        checkpoint: The checkpoint its window now begins with, if any.
    """

    source: StartSource
    checkpoint: int | None = None

    @property
    def event(self) -> Literal[HookEvent.SESSION_START]:
        return HookEvent.SESSION_START

    @property
    def subject(self) -> str:
        """What a matcher is compared with."""
        return self.source

    def payload(self) -> dict[str, object]:
        """Return the facts as the JSON object a command reads."""
        return {
            **self._name_session(self.event),
            # threadkeep has no permission modes; hooks that read the key expect one.
            "permission_mode": "default",
            "source": self.source,
            "threadkeep": {"thread": self.thread_id, "checkpoint": self.checkpoint},
        }


Facts = CompactionFacts | SessionFacts
