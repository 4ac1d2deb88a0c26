"""plan → draft → merge and audit → checkpoint, going down a ladder of smaller frontiers until the target is met."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.compaction import extractive
from holdfast.compaction.archive import archive
from holdfast.compaction.audit import AuditReport, audit
from holdfast.compaction.checkpoint import cut_of, faults, lay_out, placed_length
from holdfast.compaction.comparison import PlanSummary, summarise
from holdfast.compaction.ledger import Ledger, dump_ledger, load_ledger
from holdfast.compaction.merge import merge
from holdfast.compaction.operations import Operation
from holdfast.compaction.plan import Plan, frontier_budget, plan_cut
from holdfast.compaction.state_text import render_state
from holdfast.dialects import Dialect
from holdfast.errors import BadInput, BrokenWindow, NothingToCompact, UnknownStrategy
from holdfast.items import Item
from holdfast.thread import Checkpoint, History, KeepEntry, LayoutEntry, Pointer, Tip
from holdfast.tokens import estimate_item

# A compaction that gains less than this costs more (a cache miss on the whole prefix) than it brings.
LEAST_GAIN_PERCENT = 10
# Two compactions without real growth between them do not happen, unless a person asks for a smaller window by name.
LEAST_GROWTH_PERCENT = 10
RUNGS = (1.0, 0.5, 0.25, 0.1, 0.0)

# How a strategy drafts; a new one costs a module and a line here.
STRATEGIES: Final[Mapping[str, Callable[..., list[Operation]]]] = {extractive.NAME: extractive.draft}
DEFAULT_STRATEGY: Final = extractive.NAME

_target = re.compile(r"(\d+)(%?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A checkpoint ready to be committed, and its report."""

    checkpoint: Checkpoint
    report: AuditReport
    ledger: Ledger
    plan: PlanSummary
    tokens_before: int
    tokens_after: int
    over_target: bool


def target_tokens(text: str, *, of_tokens: int) -> int:
    """Return the target that `text` writes: tokens, or a percentage of what there is.

    Raises:
        BadInput: It is neither.
    """
    match = _target.fullmatch(text.strip())
    if match is None or (match[2] and int(match[1]) > 100):
        raise BadInput(f"{text!r} is not a target; write a number of tokens, or a percentage such as 10%")
    return int(match[1]) * of_tokens // 100 if match[2] else int(match[1])


def ledger_of(history: History) -> Ledger:
    """Return the ledger a window's checkpoint carries; an empty one before the first."""
    return load_ledger(bytes(history.checkpoint.state)) if history.checkpoint else Ledger()


def compact(
    history: History,
    *,
    thread_id: str,
    dialect: Dialect,
    tip: Tip,
    strategy: str | None = None,
    target: str | None = None,
    window_tokens: int | None = None,
    focus: str | None = None,
) -> Outcome:
    """Return the checkpoint that shortens `history`; nothing is written.

    Raises:
        UnknownStrategy: There is no strategy of that name.
        NothingToCompact: Too little happened since the last checkpoint for another to be worth it.
        BrokenWindow: The result would not be well formed; a defect, and nothing was changed.
    """
    name = strategy or DEFAULT_STRATEGY
    if name not in STRATEGIES:
        raise UnknownStrategy(name, known=tuple(STRATEGIES))
    before = history.tokens
    if target is None and not _has_grown(history):
        raise NothingToCompact(thread_id, reason="too little came since the last checkpoint")
    wanted = target_tokens(target, of_tokens=before) if target else before * (100 - LEAST_GAIN_PERCENT) // 100
    budget = frontier_budget(before, window_tokens=window_tokens)
    budget = min(budget, wanted) if target else budget
    best: Outcome | None = None
    for rung in RUNGS:
        plan = plan_cut(history, view=dialect.view, tip=tip, frontier_tokens=int(budget * rung))
        if not any(seen.entry.after_cut for seen in plan.replaced) and placed_length(plan) == 0:
            continue
        outcome = _attempt(plan, history, thread_id=thread_id, dialect=dialect, strategy=name, focus=focus, wanted=wanted)
        if best is None or outcome.tokens_after < best.tokens_after:
            best = outcome
        if outcome.tokens_after <= wanted:
            break
    if best is None:
        raise NothingToCompact(thread_id, reason="nothing new stands between the last checkpoint and the request")
    if best.tokens_after > before * (100 - LEAST_GAIN_PERCENT) // 100:
        raise NothingToCompact(thread_id, reason=f"{before} tokens would only become {best.tokens_after}")
    return best


def _has_grown(history: History) -> bool:
    """Whether enough was recorded since the window's checkpoint, if it has one, for another to be worth it."""
    if history.checkpoint_ordinal is None:
        return True
    since = (e.tokens for e in history.entries if e.source is not None and e.source.ordinal > history.checkpoint_ordinal)
    return sum(since) * 100 >= history.tokens * LEAST_GROWTH_PERCENT


def _attempt(
    plan: Plan, history: History, *, thread_id: str, dialect: Dialect, strategy: str, focus: str | None, wanted: int
) -> Outcome:
    ledger = ledger_of(history)
    spoken = {seen.entry.source: seen.view.said for seen in plan.spoken if seen.entry.source is not None}
    merged = merge(ledger, STRATEGIES[strategy](plan, ledger, focus=focus), spoken=spoken)
    audited = audit(plan, merged)
    state = archive(audited.ledger, budget_tokens=max(0, wanted - plan.kept_tokens))
    layout = lay_out(plan, state=dialect.state_item(render_state(state)), dialect=dialect)
    loose = [kept.seen.entry.item for kept in plan.tail[placed_length(plan) :]]
    items = [*_literal(layout, history), *loose]
    problems = faults([dialect.view(item) for item in history.items], [dialect.view(item) for item in items])
    if problems:
        raise BrokenWindow(thread_id, faults=tuple(problems))
    after = sum(estimate_item(item.raw) for item in items)
    cut, covers = cut_of(plan)
    checkpoint = Checkpoint(
        strategy=strategy,
        base=history.checkpoint_ordinal,
        cut=cut,
        covers=covers,
        layout=layout,
        state=msgspec.Raw(dump_ledger(state)),
        audit=msgspec.Raw(msgspec.json.encode(audited.report)),
        figures={
            "tokens_before": plan.tokens_before,
            "tokens_after": after,
            "replaced_items": len(plan.replaced),
            "kept_items": len(plan.tail),
            "model_calls": 0,
        },
        focus=focus,
    )
    return Outcome(
        checkpoint=checkpoint,
        report=audited.report,
        ledger=state,
        plan=summarise(plan, layout),
        tokens_before=plan.tokens_before,
        tokens_after=after,
        over_target=after > wanted,
    )


def _literal(layout: list[LayoutEntry], history: History) -> list[Item]:
    """Return the items a layout stands for, taken from the window it was computed on."""
    recorded = {entry.source: entry.item for entry in history.entries}
    return [
        recorded[Pointer(entry.thread, entry.ordinal)] if isinstance(entry, KeepEntry) else Item(bytes(entry.item))
        for entry in layout
    ]
