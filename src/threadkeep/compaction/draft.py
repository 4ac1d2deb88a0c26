"""What a strategy is given, and what it gives back.

A draft is never the new window: it is what a model had to say, as operations that code weighs, a summary, or items only its
provider can read. What people said is in the ledger whatever the draft holds (`engine.conclude`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from threadkeep.compaction.facts import ObservedItem
from threadkeep.compaction.inline import ProviderCompaction
from threadkeep.compaction.ledger import Ledger, Speaker
from threadkeep.compaction.operations import Operation
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
    """A model a strategy may ask.

    Attributes:
        name: As a person writes it.
        dialect: The wire language its requests are written in.
        ask: Sends one request and returns the whole answer, asking again where that may help.
        compact: Has the provider compact a history by itself; None where it cannot.
        window_tokens: What one request may hold.
        most_read_tokens: What all requests of a draft may hold together; None sets no bound.
        issuer: The account it answers with, where what is sealed for that account may be shown to it.
        foreign: The records that hold what another account's provider sealed; it is shown them without.
        own: The thread's own request, fields and head, where this is the thread's own model: everything before the instruction
            is then what a turn sends, and so a cache hit. None has the span told as a transcript.
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
        """Whether a draft may read so much."""
        return self.most_read_tokens is None or tokens <= self.most_read_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A compaction to be drafted.

    Attributes:
        plan: What is replaced and what stays, with the widest frontier.
        window: The window as it stands, the old state included.
        ledger: What the session remembers so far.
        focus: What a person wants kept in view, subordinate to everything else.
        prompt: The user's own wording of the instruction; see each strategy for what it may replace.
        unread: Items that stand before the window and that its ledger does not know.
        written: What the provider compacted by itself in an answer since the last checkpoint, the newest of it.
    """

    thread_id: str
    dialect: Dialect
    plan: Plan
    window: tuple[Position, ...]
    ledger: Ledger
    focus: str | None = None
    prompt: str | None = None
    unread: tuple[ObservedItem, ...] = ()
    written: ProviderCompaction | None = None

    @property
    def spoken(self) -> dict[Pointer, str]:
        """Every message of a person that a draft may quote, by its record: those the ledger knows, and those in the window."""
        known = (entry for entry in self.ledger.entries if entry.speaker is Speaker.USER and entry.sources)
        told = {entry.sources[-1]: entry.text for entry in known}
        fresh = (seen for seen in self.plan.spoken if seen.entry.source is not None)
        return told | {seen.entry.source: seen.view.said for seen in fresh if seen.entry.source is not None}

    def window_for(self, voice: Summariser) -> list[Position]:
        """Return the window as it may be shown to `voice`: what is sealed for another account is for that account's eyes."""
        readable = [seen for seen in self.window if not seen.entry.sealed or seen.entry.issuer == voice.issuer]
        if not voice.foreign:
            return readable
        shown = (self._remove_sealed(seen) if seen.entry.source in voice.foreign else seen for seen in readable)
        return [seen for seen in shown if seen is not None]

    def _remove_sealed(self, seen: Position) -> Position | None:
        item = self.dialect.remove_sealed(seen.entry.item)
        return None if item is None else Position(entry=replace(seen.entry, item=item), view=self.dialect.view(item))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a strategy came back with.

    Attributes:
        strategy: Its name.
        stages: Operations of each model reply, in the order they were asked for; each names entries as the ledger stood then.
        summary: What another model is to go on from; where it is set, the layout is the hand-off's.
        literals: Items a provider wrote, bound to `issuer`.
        attempts: What was tried on the way, this draft last.
        ignored: How many of its operations named no entry that there is.
    """

    strategy: str
    stages: tuple[tuple[Operation, ...], ...] = ()
    summary: str | None = None
    literals: tuple[Item, ...] = ()
    issuer: str | None = None
    attempts: tuple[Attempt, ...] = ()
    ignored: int = 0


class DraftRefused(Exception):
    """A reply that is no draft: what it was instead is recorded with the attempt, and the next rung of the ladder is taken.

    Never leaves the compaction that asked.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Meter:
    """What asking cost so far, as far as anybody told."""

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_micro_usd: int | None = None
    ignored: int = 0

    def heard(self, reply: ModelReply | RemoteCompaction) -> None:
        """Count one whole answer."""
        self.input_tokens = _add_count(self.input_tokens, reply.input_tokens)
        self.output_tokens = _add_count(self.output_tokens, reply.output_tokens)
        self.cached_tokens = _add_count(self.cached_tokens, reply.cached_tokens)
        if isinstance(reply, ModelReply) and reply.cost_usd is not None:
            self.cost_micro_usd = _add_count(self.cost_micro_usd, round(reply.cost_usd * 1_000_000))

    def attempt(self, *, strategy: str, model: str | None, outcome: str, took_ms: int) -> Attempt:
        """Return what was spent as the record of one attempt."""
        return msgspec.structs.replace(
            Attempt(strategy=strategy, outcome=outcome),
            model=model,
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            cost_micro_usd=self.cost_micro_usd,
            ignored=self.ignored,
            took_ms=took_ms,
        )


def _add_count(count: int | None, told: int | None) -> int | None:
    """Return a count with what was told since; what nobody told leaves it as it was."""
    return count if told is None else (count or 0) + told
