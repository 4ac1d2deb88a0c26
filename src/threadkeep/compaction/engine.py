"""Proposes a compaction, and turns the proposal and a draft into a checkpoint.

`propose` and `conclude` are pure; between them a strategy makes the draft and may ask a model. `conclude` uses the same draft
with ever smaller frontiers until the target is met. People's messages enter the ledger by code, whatever a draft holds.
A window smaller than the least frontier puts people's messages first: `conclude` takes the one that tells most of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from threadkeep.compaction.audit import Audited, AuditReport, audit, make_report
from threadkeep.compaction.checkpoint import count_placed, find_cut, find_faults
from threadkeep.compaction.early_compaction import Worth, compute_worth
from threadkeep.compaction.facts.facts import ObservedItem
from threadkeep.compaction.ledger import Ledger, dump_ledger, load_ledger
from threadkeep.compaction.merge import apply, merge_observed
from threadkeep.compaction.plan import (
    DEFAULT_WINDOW_TOKENS,
    FRONTIER_FLOOR_TOKENS,
    Plan,
    Position,
    Positions,
    plan_cut,
    plan_from,
    read_positions,
    size_frontier,
    size_quotes,
)
from threadkeep.compaction.quotes import MessageWords, find_entries_in_view, quote_newest
from threadkeep.compaction.remarks import apply_remarks
from threadkeep.compaction.report import PlanSummary, summarise
from threadkeep.compaction.state_budget import StateFitter
from threadkeep.compaction.strategies.remote import take_out
from threadkeep.compaction.strategies.strategy import EXTRACTIVE, Brief, Draft, Goal
from threadkeep.dialects import Dialect
from threadkeep.errors import BrokenWindow, InvalidArgument, NothingToCompact
from threadkeep.items import Item
from threadkeep.threads import (
    Checkpoint,
    History,
    KeepEntry,
    LayoutEntry,
    Pointer,
    Tip,
    sum_attempts,
)
from threadkeep.tokens import estimate_item

# A compaction that gains less than this costs more (a cache miss on the whole prefix) than it brings.
LEAST_GAIN_PERCENT = 10
# Two compactions without real growth between them do not happen, unless a person asks for a smaller window by name.
LEAST_GROWTH_PERCENT = 10
NOTHING_NEW = "nothing new stands between the last checkpoint and the request"
RUNGS = (1.0, 0.5, 0.25, 0.1, 0.0)
# A tight target that is missed by so much downwards has room for a wider frontier, which is looked for so often.
SPARE_PERCENT = 5
WIDENINGS = 4
# Of a tight target so much goes to the newest items as they were: what an agent does next depends most on what it did last.
FRONTIER_PERCENT = 83
# A window is not made smaller than this without need: recent work fills what the state and people's messages leave. Of a short
# history it keeps half, and it takes no more than a quarter of a model's window.
FILLED_TOKENS = 6_900
FILLED_PERCENT = 50
# The frontier grows to so much of what there was where its newest step alone is larger than its budget.
REACH_PERCENT = 25
# Of a tight target the state, and people's newest messages behind it, may take so much; the frontier takes what they leave.
STATE_PERCENT = 10
QUOTED_PERCENT = 5
# A window smaller than the least frontier holds less recent work; of what is beside it so much is people's newest messages.
SMALL_FRONTIER_PERCENT = 70
SMALL_QUOTED_PERCENT = 60

NO_DRAFT = Draft(strategy=EXTRACTIVE)

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
    worth: Worth
    over_target: bool


def parse_target(text: str, *, of_tokens: int) -> int:
    """Return the target in tokens; `text` is a number of tokens or a percentage of `of_tokens`.

    Raises:
        InvalidArgument: `text` is neither.
    """
    match = _target.fullmatch(text.strip())
    if match is None or (match[2] and int(match[1]) > 100):
        raise InvalidArgument("target", f"{text!r} is not a target; write a number of tokens, or a percentage such as 10%")
    return int(match[1]) * of_tokens // 100 if match[2] else int(match[1])


def read_ledger(history: History, *, carried: Ledger | None = None) -> Ledger:
    """Return the ledger of the window's checkpoint, with the remarks people made since.

    Before the first checkpoint it begins with the ledger `carried` over from a rewritten history, if there is one.
    """
    base = load_ledger(bytes(history.checkpoint.state)) if history.checkpoint is not None else carried or Ledger()
    return apply_remarks(base, history.remarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How large the new window may be, and how much of it is recent work.

    Attributes:
        most: How many tokens the new window may hold.
        filled: The frontier is widened until the new window is about so large.
        frontier_tokens: The frontier to begin with.
        widest_tokens: The frontier where there is room left.
        reach_tokens: The frontier where its newest step is a large one.
        is_tight: There is no room for the widest frontier: the state and people's newest messages keep to shares.
    """

    most: int
    filled: int
    frontier_tokens: int
    widest_tokens: int
    reach_tokens: int
    is_tight: bool

    @property
    def is_tiny(self) -> bool:
        """Whether people's messages come before recent work."""
        return self.most < FRONTIER_FLOOR_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A compaction that is worth making.

    Attributes:
        brief: The input of a strategy.
        room: How large the new window may be.
        quoted_tokens: How many tokens of the user's messages stand behind a state.
    """

    positions: Positions
    brief: Brief
    room: Room
    quoted_tokens: int

    @property
    def goal(self) -> Goal:
        return self.brief.goal

    @property
    def tokens_before(self) -> int:
        return self.positions.history.tokens


def compact(history: History, *, thread_id: str, dialect: Dialect, tip: Tip, goal: Goal | None = None) -> Outcome:
    """Return the checkpoint that shortens `history` without a model; see `propose` and `conclude` for what is raised."""
    return conclude(propose(history, thread_id=thread_id, dialect=dialect, tip=tip, goal=goal), NO_DRAFT)


def propose(
    history: History,
    *,
    thread_id: str,
    dialect: Dialect,
    tip: Tip,
    goal: Goal | None = None,
    carried: Ledger | None = None,
    unread: tuple[ObservedItem, ...] = (),
) -> Proposal:
    """Return the compaction of `history` that is worth making; `carried` as in `read_ledger`, `unread` as in `Brief`.

    Raises:
        NothingToCompact: The thread has grown too little since its last checkpoint.
    """
    goal = goal or Goal()
    if goal.target is None and not goal.forced and not _has_grown(history):
        raise NothingToCompact(thread_id, reason="too little came since the last checkpoint")
    taken = take_out(history, dialect)
    positions = read_positions(taken.history, view=dialect.view, tip=tip)
    room = _measure_room(history.tokens, goal)
    if goal.adopting and taken.written is not None:
        plan = plan_from(positions, ordinal=taken.written.place.ordinal)
    else:
        plan = plan_cut(positions, frontier_tokens=room.frontier_tokens, reach_tokens=room.reach_tokens)
    brief = Brief(
        thread_id=thread_id,
        dialect=dialect,
        plan=plan,
        window=tuple(Position(entry=entry, view=dialect.view(entry.item)) for entry in history.entries),
        ledger=read_ledger(history, carried=carried),
        goal=goal,
        unread=unread,
        written=taken.written,
    )
    quoted_tokens = size_quotes(goal.user_tokens, window_tokens=goal.window_tokens)
    return Proposal(positions=positions, brief=brief, room=room, quoted_tokens=quoted_tokens)


def _measure_room(before: int, goal: Goal) -> Room:
    fit_tokens, window_tokens = goal.fit_tokens, goal.window_tokens
    most = parse_target(goal.target, of_tokens=before) if goal.target else before * (100 - LEAST_GAIN_PERCENT) // 100
    most = most if fit_tokens is None else min(most, fit_tokens)
    widest = size_frontier(before, window_tokens=window_tokens)
    share = most * (FRONTIER_PERCENT if most >= FRONTIER_FLOOR_TOKENS else SMALL_FRONTIER_PERCENT) // 100
    if (goal.target is not None or fit_tokens is not None) and share < widest:
        return Room(most=most, filled=most, frontier_tokens=share, widest_tokens=widest, reach_tokens=0, is_tight=True)
    quarter = (window_tokens or DEFAULT_WINDOW_TOKENS) // 4
    filled = min(most, FILLED_TOKENS, before * FILLED_PERCENT // 100, quarter)
    return Room(
        most=most,
        filled=filled,
        frontier_tokens=widest,
        widest_tokens=max(widest, filled),
        reach_tokens=min(before * REACH_PERCENT // 100, quarter),
        is_tight=False,
    )


def has_something_to_replace(proposal: Proposal) -> bool:
    """Whether a draft could lead to a checkpoint: without a frontier, there are new items before the request."""
    return _has_replacement(plan_cut(proposal.positions, frontier_tokens=0))


def _has_replacement(plan: Plan) -> bool:
    return any(seen.entry.after_cut for seen in plan.replaced) or count_placed(plan) > 0


def conclude(proposal: Proposal, draft: Draft) -> Outcome:
    """Return the checkpoint made from a proposal and a draft; nothing is written.

    Raises:
        NothingToCompact: It would not make the window smaller by enough to be worth it.
        BrokenWindow: The result would not be well formed; a defect, and nothing was changed.
    """
    before, thread_id, room = proposal.tokens_before, proposal.brief.thread_id, proposal.room
    best: _Window | None = None
    broken: BrokenWindow | None = None
    composer = _Composer(proposal, draft)
    for plan, frontier_tokens in _iterate_plans(proposal, draft):
        if not _has_replacement(plan):
            continue
        try:
            window = composer.compose(plan)
        except BrokenWindow as fault:
            # A shorter frontier may do without what is broken here.
            broken = fault
            continue
        is_over = window.tokens > room.most
        if not is_over and draft.strategy.keeps_recent_work and not room.is_tiny and not proposal.goal.adopting:
            window = _widen(window, composer, proposal, frontier_tokens=frontier_tokens)
        if best is None or _measure_miss(window, proposal) < _measure_miss(best, proposal):
            best = window
        if not is_over and not (room.is_tiny and window.report.left_out):
            break
    if best is None:
        raise broken or NothingToCompact(thread_id, reason=NOTHING_NEW)
    if best.tokens > before * (100 - LEAST_GAIN_PERCENT) // 100:
        raise NothingToCompact(thread_id, reason=f"{before} tokens would only become {best.tokens}")
    return _make_outcome(best, proposal, draft)


def _iterate_plans(proposal: Proposal, draft: Draft) -> Iterator[tuple[Plan, int]]:
    """Yield the plans to try with their frontiers' budgets, the widest first. Some strategies keep only what is under way."""
    frontier_tokens = proposal.room.frontier_tokens
    keeps_recent_work = draft.strategy.keeps_recent_work
    if proposal.goal.adopting or keeps_recent_work:
        yield proposal.brief.plan, frontier_tokens
    if proposal.goal.adopting:
        return
    for rung in RUNGS[1:] if keeps_recent_work else RUNGS[-1:]:
        budget = int(frontier_tokens * rung)
        plan = plan_cut(proposal.positions, frontier_tokens=budget)
        is_over = not keeps_recent_work and proposal.goal.phase != "mid_turn"
        yield plan.release_request() if is_over else plan, budget


def _widen(window: _Window, composer: _Composer, proposal: Proposal, *, frontier_tokens: int) -> _Window:
    """Return a window that uses the room left: for a wider frontier, else, at a tight target, for a larger state."""
    room = proposal.room
    least = room.filled * SPARE_PERCENT // 100
    budget, step = frontier_tokens, room.filled - window.tokens
    for _ in range(WIDENINGS):
        if step < least or budget >= room.widest_tokens:
            break
        wider_budget = min(budget + step, room.widest_tokens)
        wider = _try_wider(plan_cut(proposal.positions, frontier_tokens=wider_budget), window, composer, room=room)
        if wider is None:
            # The next step back is too large a turn, or output.
            step //= 2
            continue
        budget, window = wider_budget, wider
        step = room.filled - window.tokens
    if room.is_tight and room.filled - window.tokens >= least:
        return composer.compose(window.base, state_keeps_share=False)
    return window


def _try_wider(plan: Plan, window: _Window, composer: _Composer, *, room: Room) -> _Window | None:
    """Return the window of a plan with a wider frontier; None if it is no better than `window`."""
    if plan.tail == window.base.tail:
        return window
    # A budget without reach may lose a large newest step that `window` keeps.
    if plan.tail_tokens < window.base.tail_tokens or not _has_replacement(plan):
        return None
    try:
        wider = composer.compose(plan)
    except BrokenWindow:
        return None
    has_more_left_out = len(wider.state.left_out) > len(window.state.left_out)
    return None if wider.tokens > room.filled or (not room.is_tight and has_more_left_out) else wider


def _measure_miss(window: _Window, proposal: Proposal) -> tuple[int, int]:
    """Return how far a window misses: tokens over the target, then the number of people's messages left to recall."""
    return max(0, window.tokens - proposal.room.most), window.report.left_out


def _has_grown(history: History) -> bool:
    """Whether enough was recorded since the window's checkpoint, if it has one, for another to be worth it."""
    if history.checkpoint_ordinal is None:
        return True
    since = (e.tokens for e in history.entries if e.source is not None and e.source.ordinal > history.checkpoint_ordinal)
    return sum(since) * 100 >= history.tokens * LEAST_GROWTH_PERCENT


def remember(history: History, *, dialect: Dialect, carried: Ledger | None = None) -> Audited:
    """Return the ledger of a window that is replaced completely; `carried` as in `read_ledger`."""
    seen = tuple(Position(entry=entry, view=dialect.view(entry.item)) for entry in take_out(history, dialect).history.said)
    plan = Plan(
        tip=Tip(next=0, turn=0, depth=0, chain=b""),
        context=(),
        request=None,
        tail=(),
        replaced=seen,
        tokens_before=history.tokens,
    )
    ledger = read_ledger(history, carried=carried)
    return audit(plan, merge_observed(replace(ledger, age=ledger.age + 1), plan.observed))


def _apply_draft(proposal: Proposal, draft: Draft) -> Ledger:
    """Return the ledger with the draft applied, then the window merged: a draft refers to the entry ids it was shown."""
    brief = proposal.brief
    ledger = replace(brief.ledger, age=brief.ledger.age + 1)
    spoken = brief.spoken
    for stage in draft.stages:
        ledger = apply(ledger, stage, spoken=spoken)
    return merge_observed(ledger, (*brief.unread, *brief.plan.observed), focus=brief.goal.focus)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A new window: `base` is its plan as it was cut, `plan` the same with people's newest messages quoted."""

    base: Plan
    plan: Plan
    state: Ledger
    report: AuditReport
    layout: list[LayoutEntry]
    items: list[Item]
    tokens: int


class _Composer:
    """Makes windows from plans; the ledger and what it decides is the same for every cut of the frontier."""

    def __init__(self, proposal: Proposal, draft: Draft) -> None:
        self._proposal = proposal
        self._draft = draft
        self._dialect = proposal.brief.dialect
        self._audited = audit(proposal.brief.plan, _apply_draft(proposal, draft), focus=proposal.goal.focus)
        ledger = self._audited.ledger
        words = MessageWords(ledger)
        self._repeated = words.find_repeated()
        self._fitter = StateFitter(ledger, words=words, budget=proposal.goal.state_budget, repeated=self._repeated)
        self._before = [seen.view for seen in proposal.brief.window]
        window = [seen.entry for seen in proposal.positions.seen]
        self._recorded = {entry.source: entry.item for entry in window}
        self._views = {id(seen.entry.item): seen.view for seen in proposal.positions.seen}

    def compose(self, plan: Plan, *, state_keeps_share: bool = True) -> _Window:
        """Return the window of a plan; at a tight target the state keeps to its share, unless `state_keeps_share` is off.

        Raises:
            BrokenWindow: Its structure is not what a provider can read.
        """
        base = plan
        plan, state = self._fit_state(plan, is_tight=self._proposal.room.is_tight and state_keeps_share)
        layout = self._draft.strategy.lay_out(plan, state, self._draft, self._proposal.brief)
        loose = [kept.seen.entry.item for kept in plan.tail[count_placed(plan) :]]
        items = [*(self._find_item(entry) for entry in layout), *loose]
        after = [self._views.get(id(item)) or self._dialect.view(item) for item in items]
        # A hand-off between turns keeps people's messages within a budget, which may be none.
        if faults := find_faults(
            self._before, after, needs_request=self._draft.strategy.keeps_recent_work or plan.request is not None
        ):
            raise BrokenWindow(self._proposal.brief.thread_id, faults=tuple(faults))
        tokens = sum(estimate_item(item.raw) for item in items)
        report = make_report(self._audited, state)
        return _Window(base=base, plan=plan, state=state, report=report, layout=layout, items=items, tokens=tokens)

    def _find_item(self, entry: LayoutEntry) -> Item:
        return self._recorded[Pointer(entry.thread, entry.ordinal)] if isinstance(entry, KeepEntry) else Item(bytes(entry.item))

    def _fit_state(self, plan: Plan, *, is_tight: bool) -> tuple[Plan, Ledger]:
        """Return the plan with people's newest messages quoted behind the state, and the ledger fitted to the state's room."""
        most, is_tiny, ledger = self._proposal.room.most, self._proposal.room.is_tiny, self._audited.ledger
        if self._draft.strategy.keeps_recent_work:
            beside = max(0, most - plan.kept_tokens - self._fitter.least_tokens)
            if is_tiny:
                beside = beside * SMALL_QUOTED_PERCENT // 100
            elif is_tight:
                beside = min(beside, most * QUOTED_PERCENT // 100)
            budget = min(self._proposal.quoted_tokens, beside)
            plan = plan.with_quotes(quote_newest(plan, ledger, budget_tokens=budget, repeated=self._repeated))
        room = max(0, most - plan.kept_tokens)
        if is_tight and not is_tiny:
            room = min(room, most * STATE_PERCENT // 100)
        in_view = find_entries_in_view(plan, ledger)
        return plan, self._fitter.fit(in_view=in_view, room_tokens=room, messages_first=is_tiny)


def _make_outcome(window: _Window, proposal: Proposal, draft: Draft) -> Outcome:
    history, plan = proposal.positions.history, window.plan
    bill = sum_attempts(draft.attempts)
    worth = compute_worth(history.items, window.items, asks=(bill.input_tokens or 0) + (bill.output_tokens or 0))
    cut, covers = find_cut(plan)
    figures = {
        "tokens_before": plan.tokens_before,
        "tokens_after": window.tokens,
        "shed_tokens": worth.sheds,
        "rebilled_tokens": worth.rebills,
        "replaced_items": len(plan.replaced),
        "kept_items": len(plan.tail),
        "model_calls": bill.calls,
        "took_ms": bill.took_ms,
    }
    checkpoint = Checkpoint(
        strategy=draft.strategy.name,
        base=history.checkpoint_ordinal,
        cut=cut,
        covers=covers,
        layout=window.layout,
        state=msgspec.Raw(dump_ledger(window.state)),
        audit=msgspec.Raw(msgspec.json.encode(window.report)),
        figures=figures,
        focus=proposal.goal.focus,
        fell_back_from=draft.attempts[0].strategy if len(draft.attempts) > 1 else None,
        phase=proposal.goal.phase,
        model=draft.attempts[-1].model if draft.attempts else None,
        attempts=list(draft.attempts),
        remarks_to=plan.tip.next,
    )
    return Outcome(
        checkpoint=checkpoint,
        report=window.report,
        ledger=window.state,
        plan=summarise(plan, window.layout),
        tokens_before=plan.tokens_before,
        tokens_after=window.tokens,
        worth=worth,
        over_target=window.tokens > proposal.room.most,
    )
