"""What a compaction returns: what it did, or would do, to the window and the state."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.compaction import AuditReport
from threadkeep.compaction.comparison import Comparison, PlanSummary
from threadkeep.compaction.worth import Worth
from threadkeep.hooks import HookRun
from threadkeep.threads import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What a compaction did, or would do: to the window (`plan`), and to what the state says (`changes`).

    `attempts` are the strategies that were tried, in order, with what asking a model for each cost; the last one was taken.
    `hooks` says what became of everything that was run around it.
    """

    thread: str
    checkpoint: int | None
    strategy: str
    fell_back_from: str | None
    tokens_before: int
    tokens_after: int
    worth: Worth
    model_calls: int
    attempts: tuple[Attempt, ...]
    hooks: tuple[HookRun, ...]
    over_target: bool
    audit: AuditReport
    plan: PlanSummary
    changes: Comparison
