"""The input and the output of a strategy.

A draft is never the new window: it holds operations that code checks, a summary, or items that only their provider can read.
The ledger holds people's messages whatever the draft says (`engine.conclude`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from threadkeep.compaction.facts.facts import ObservedItem
from threadkeep.compaction.ledger import Ledger, Operation, Speaker
from threadkeep.compaction.plan import Plan, Position
from threadkeep.dialects import Dialect, Request
from threadkeep.items import Item
from threadkeep.llm.base import ModelReply, RemoteCompaction
from threadkeep.threads import Attempt, Pointer

# The strategy that asks no model. Every other one falls back to it.
EXTRACTIVE: Final = "extractive"

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
class Brief:
    """The input of a draft.

    Attributes:
        plan: The replaced and the kept parts, with the widest frontier.
        window: The current window, with the old state.
        ledger: The ledger before this compaction's draft.
        focus: A topic that a person wants kept in view; everything else outweighs it.
        prompt: The user's own wording of the instruction; see each strategy for what it may replace.
        unread: Items before the window that its ledger does not cover.
        written: The newest compaction that the provider wrote in a reply since the last checkpoint.
    """

    thread_id: str
    dialect: Dialect
    plan: Plan
    window: tuple[Position, ...]
    ledger: Ledger
    focus: str | None = None
    prompt: str | None = None
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
        strategy: Its name.
        stages: The operations of each reply, in order; each stage names entries of the ledger after the stage before.
        summary: The summary for the next model; if set, the layout is that of a hand-off.
        literals: Items that a provider wrote, bound to `issuer`.
        attempts: All attempts up to this draft, which is the last.
        ignored: The number of operations that named no entry of the ledger.
    """

    strategy: str
    stages: tuple[tuple[Operation, ...], ...] = ()
    summary: str | None = None
    literals: tuple[Item, ...] = ()
    issuer: str | None = None
    attempts: tuple[Attempt, ...] = ()
    ignored: int = 0


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
