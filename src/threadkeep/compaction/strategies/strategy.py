"""A strategy, its input and its output.

A draft is never the new window: it holds operations that code checks, a summary, or items that only their provider can read.
The ledger holds people's messages whatever the draft says (`engine.conclude`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

import msgspec

from threadkeep.compaction.checkpoint import lay_out
from threadkeep.compaction.facts.facts import ObservedItem
from threadkeep.compaction.ledger import Ledger, Operation, Speaker
from threadkeep.compaction.plan import Plan, Position
from threadkeep.compaction.state_budget import StateBudget
from threadkeep.compaction.state_text import render_state
from threadkeep.dialects import Dialect, Request
from threadkeep.items import Item
from threadkeep.llm.base import ModelReply, RemoteCompaction
from threadkeep.threads import Attempt, LayoutEntry, LiteralEntry, Pointer

Phase = Literal["standalone_turn", "pre_turn", "mid_turn"]

Ask = Callable[[Request], Awaitable[ModelReply]]
AskRemote = Callable[[Request], Awaitable[RemoteCompaction]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summariser:
    """A model that a strategy may ask.

    Attributes:
        name: The name of the model as a person writes it.
        dialect: The wire language its requests are written in.
        ask: Sends one request, with retries, and returns the whole reply.
        compact: Asks the provider to compact a history by itself; None if it cannot.
        window_tokens: The limit of one request.
        most_read_tokens: The limit of all requests of a draft together; None sets no bound.
        issuer: The account of the model; it may read items sealed for this account.
        foreign: The records with parts sealed for another account; these parts are removed from its requests.
        own: The fields and head of the thread's own request, if this is the thread's own model: everything before the
            instruction is then a cache hit. With None the span is sent as a transcript.
    """

    name: str
    dialect: Dialect
    ask: Ask
    window_tokens: int
    most_read_tokens: int | None = None
    compact: AskRemote | None = None
    issuer: str | None = None
    foreign: frozenset[Pointer] = frozenset()
    own: Request | None = None

    def may_read(self, tokens: int) -> bool:
        """Whether a draft may send requests of so many tokens."""
        return self.most_read_tokens is None or tokens <= self.most_read_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCompaction:
    """A compaction that a provider wrote in an answer by itself, and its record."""

    item: Item
    place: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a compaction is asked for.

    Attributes:
        target: Bound of the new window: tokens (`8000`) or a share of the old one (`10%`).
        focus: A topic that a person wants kept in view; everything else outweighs it.
        prompt: The user's own wording of the instruction; see each strategy for what it may replace.
        window_tokens: The window of the model of the next request.
        fit_tokens: The most that the new window may hold for the next request to fit.
        user_tokens: How many tokens of the user's messages a hand-off quotes; behind a state stand half as many.
        state_budget: How large the state may be, and how its parts share that.
        phase: Where in a turn it happens.
        forced: The provider refused the window, so it is compacted however little it has grown.
        adopting: Only one plan is possible: the items after the provider's own compaction stay unchanged.
    """

    target: str | None = None
    focus: str | None = None
    prompt: str | None = None
    window_tokens: int | None = None
    fit_tokens: int | None = None
    user_tokens: int = 20_000
    state_budget: StateBudget = field(default_factory=StateBudget)
    phase: Phase = "standalone_turn"
    forced: bool = False
    adopting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """The input of a draft.

    Attributes:
        plan: The replaced and the kept parts, with the widest frontier.
        window: The current window, with the old state.
        ledger: The ledger before this compaction's draft.
        unread: Items before the window that its ledger does not cover.
        written: The newest compaction that the provider wrote in a reply since the last checkpoint.
    """

    thread_id: str
    dialect: Dialect
    plan: Plan
    window: tuple[Position, ...]
    ledger: Ledger
    goal: Goal = field(default_factory=Goal)
    unread: tuple[ObservedItem, ...] = ()
    written: WrittenCompaction | None = None

    @property
    def spoken(self) -> dict[Pointer, str]:
        """The messages of people that a draft may quote, by record: those of the ledger and those of the window."""
        known = (entry for entry in self.ledger.entries if entry.speaker is Speaker.USER and entry.sources)
        told = {entry.sources[-1]: entry.text for entry in known}
        fresh = (seen for seen in self.plan.spoken if seen.entry.source is not None)
        return told | {seen.entry.source: seen.view.said for seen in fresh if seen.entry.source is not None}

    def window_for(self, summariser: Summariser) -> list[Position]:
        """Return the window for a summariser, without the parts that are sealed for other accounts."""
        readable = [seen for seen in self.window if not seen.entry.sealed or seen.entry.issuer == summariser.issuer]
        if not summariser.foreign:
            return readable
        shown = (self._remove_sealed(seen) if seen.entry.source in summariser.foreign else seen for seen in readable)
        return [seen for seen in shown if seen is not None]

    def _remove_sealed(self, seen: Position) -> Position | None:
        item = self.dialect.remove_sealed(seen.entry.item)
        return None if item is None else Position(entry=replace(seen.entry, item=item), view=self.dialect.view(item))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The result of a strategy.

    Attributes:
        stages: The operations of each reply, in order; each stage names entries of the ledger after the stage before.
        summary: The summary for the next model, for a strategy with a layout that shows it.
        literals: Items that a provider wrote, bound to `issuer`.
        attempts: All attempts up to this draft, which is the last.
        ignored: The number of operations that named no entry of the ledger.
    """

    strategy: Strategy
    stages: tuple[tuple[Operation, ...], ...] = ()
    summary: str | None = None
    literals: tuple[Item, ...] = ()
    issuer: str | None = None
    attempts: tuple[Attempt, ...] = ()
    ignored: int = 0


Drafter: TypeAlias = Callable[[Brief, Summariser], Awaitable[Draft]]
LayOut: TypeAlias = Callable[[Plan, Ledger, Draft, Brief], list[LayoutEntry]]


def lay_out_state(plan: Plan, state: Ledger, draft: Draft, brief: Brief) -> list[LayoutEntry]:
    """Return the entries before the cut: the state, with what the provider wrote itself in front."""
    literals = [LiteralEntry(item=msgspec.Raw(item.raw), issuer=draft.issuer, sealed=True) for item in draft.literals]
    item = brief.dialect.make_user_message(render_state(state))
    return lay_out(plan, state=item, dialect=brief.dialect, literals=literals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to make a checkpoint, whole: a new one is such a value and its name in `threadkeep.compaction.strategies`.

    Attributes:
        name: Its name in settings, orders and records.
        draft: Asks a model. It writes nothing, and raises DraftRefused or a ModelError if there is no draft. None asks no model.
        fallback: The next strategy if this one's draft fails; `extractive` if it names none.
        lay_out: Returns the entries before the cut, for a plan and the state that fits it.
        keeps_recent_work: Whether the frontier stays, with people's newest messages behind the state. Otherwise only what is
            under way stays, and `lay_out` quotes messages itself.
    """

    name: str
    draft: Drafter | None = None
    fallback: Strategy | None = None
    lay_out: LayOut = lay_out_state
    keeps_recent_work: bool = True

    @property
    def chain(self) -> tuple[Strategy, ...]:
        """This strategy and its fallbacks, in order; the last one asks no model."""
        return (self,) if self.draft is None else (self, *(self.fallback or EXTRACTIVE).chain)


# Asks no model. Every compaction includes its work.
EXTRACTIVE: Final = Strategy(name="extractive")


class DraftRefused(Exception):
    """A reply that is no draft. The reason is recorded with the attempt, and the next strategy is tried.

    Never leaves the compaction.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Meter:
    """The cost of the calls so far; None if the provider reported none."""

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_micro_usd: int | None = None
    ignored: int = 0

    def add_reply(self, reply: ModelReply | RemoteCompaction) -> None:
        """Count one whole reply."""
        self.input_tokens = _add_count(self.input_tokens, reply.input_tokens)
        self.output_tokens = _add_count(self.output_tokens, reply.output_tokens)
        self.cached_tokens = _add_count(self.cached_tokens, reply.cached_tokens)
        if isinstance(reply, ModelReply) and reply.cost_usd is not None:
            self.cost_micro_usd = _add_count(self.cost_micro_usd, round(reply.cost_usd * 1_000_000))

    def attempt(self, *, strategy: str, model: str | None, outcome: str, took_ms: int) -> Attempt:
        """Return the attempt with the cost so far."""
        return Attempt(
            strategy=strategy,
            outcome=outcome,
            model=model,
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            cost_micro_usd=self.cost_micro_usd,
            ignored=self.ignored,
            took_ms=took_ms,
        )


def _add_count(count: int | None, added: int | None) -> int | None:
    """Return the sum of two counts; None means unknown and adds nothing."""
    return count if added is None else (count or 0) + added
