"""Chooses the ledger entries that a state has room for.

Each part of the state has a share of the budget; the rest of a share goes to the other parts, people's messages first.
Pins, the objective and the work under way are always in the state. No entry leaves the ledger: a later, wider state shows the
entries that this one left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import ASKED
from threadkeep.compaction.quotes import MessageWords
from threadkeep.compaction.state_text import BRIEF_CHARS, PREFACE, render_line, render_state
from threadkeep.tokens import estimate_bytes, estimate_text

# What the longest of the dialects writes around the text of a message.
MESSAGE_BYTES = 76
# What a bullet and a line end cost.
LINE_TOKENS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBudget:
    """How many tokens a state may hold, and how its parts share them, in percent.

    `drafted` is how much of the budget a model's own lines may take, of what all other parts leave.
    """

    tokens: int = 6_000
    messages: int = 58
    findings: int = 20
    handoff: int = 17
    evidence: int = 5
    drafted: int = 25


def estimate_state(ledger: Ledger) -> int:
    """Return the tokens of the message that carries this state."""
    text = json.dumps(render_state(ledger), ensure_ascii=False)
    return estimate_bytes(len(text.encode("utf-8", "replace")) + MESSAGE_BYTES)


class StateFitter:
    """Fits the state of one ledger into a room; what the ledger alone decides is computed once for all rooms.

    `repeated` are entries that add nothing to others.
    """

    def __init__(
        self, ledger: Ledger, *, budget: StateBudget, words: MessageWords | None = None, repeated: frozenset[str] = frozenset()
    ) -> None:
        self._ledger = ledger
        self._words = words or MessageWords(ledger)
        self._budget = budget
        self._repeated = repeated
        self._line_tokens: dict[tuple[str, bool], int] = {}

    def fit(self, *, room_tokens: int, in_view: frozenset[str] = frozenset(), messages_first: bool = False) -> Ledger:
        """Return the ledger with the entries marked that its state leaves out to fit `room_tokens` and its budget.

        The state is larger only if the entries that must be told do not fit. `in_view` are entries that messages of the window
        tell. With `messages_first` no other part keeps its share while messages are left out. A model's lines take room from no
        other part.
        """
        ledger, budget, allowed = self._ledger, self._budget, min(room_tokens, self._budget.tokens)
        models = (entry for entry in ledger.entries if entry.speaker is Speaker.MODEL and entry.id not in in_view)
        drafted = [entry for entry in models if not must_be_told(entry)]
        mine = frozenset(entry.id for entry in drafted)
        hidden = in_view | self._repeated
        others = replace(ledger, entries=tuple(entry for entry in ledger.entries if entry.id not in mine), in_view=in_view)
        fitted = self._fit_others(others, allowed=allowed, budget=budget)
        if messages_first and any(
            entry.speaker is Speaker.USER and entry.id in fitted.left_out - hidden for entry in others.entries
        ):
            alone = replace(budget, messages=100, findings=0, handoff=0, evidence=0)
            fitted = self._fit_others(others, allowed=allowed, budget=alone)
        room = min(allowed - estimate_state(fitted), budget.tokens * budget.drafted // 100)
        while True:
            told: set[str] = set()
            self._take_entries(reversed(drafted), told, room=room)
            shown = replace(fitted, entries=ledger.entries, left_out=fitted.left_out | (mine - told))
            over = estimate_state(shown) - allowed
            if over <= 0 or not told:
                return shown
            room -= over

    @cached_property
    def least_tokens(self) -> int:
        """The size of the smallest state."""
        return estimate_state(self.fit(room_tokens=0))

    def _fit_others(self, ledger: Ledger, *, allowed: int, budget: StateBudget) -> Ledger:
        """Return the ledger with the entries marked that its state leaves out to fit `allowed` tokens."""
        bound = allowed
        while True:
            fitted = self._choose_entries(ledger, allowed=allowed, budget=budget)
            over = estimate_state(fitted) - bound
            if over <= 0 or allowed <= 0:
                return fitted
            allowed -= max(over, 50)

    def _choose_entries(self, ledger: Ledger, *, allowed: int, budget: StateBudget) -> Ledger:
        repeated = self._repeated - ledger.in_view
        shown = [entry for entry in ledger.entries if entry.id not in ledger.in_view and entry.id not in repeated]
        must = [entry for entry in shown if must_be_told(entry)]
        tight = 2 * sum(map(self._estimate_line, must)) > allowed
        cut = frozenset(entry.id for entry in must if tight and entry.section is Section.OBJECTIVE and not entry.pinned)
        needed = sum(self._estimate_line(entry, brief=entry.id in cut) for entry in must)
        room = max(0, allowed - estimate_text(PREFACE) - needed)
        pools = _split_pools(ledger, [entry for entry in shown if not must_be_told(entry)])
        told: set[str] = set()
        shares = {"findings": budget.findings, "handoff": budget.handoff, "evidence": budget.evidence}
        others = sum(min(room * share // 100, sum(map(self._estimate_line, pools[name]))) for name, share in shares.items())
        brief = frozenset[str]()
        if room and not self._has_room(pools["messages"], room=room - others):
            # Long messages are told in brief, and those come first that say most; the other parts keep to their shares.
            brief = frozenset(entry.id for entry in pools["messages"] if len(entry.text) > BRIEF_CHARS)
            pools["messages"].sort(key=self._words.weigh)
        spent = self._take_entries(pools["messages"], told, room=max(room - others, room * budget.messages // 100), brief=brief)
        for name, share in shares.items():
            spent += self._take_entries(pools[name], told, room=min(room - spent, room * share // 100))
        spent += self._take_entries(pools["messages"], told, room=room - spent, brief=brief)
        gone = frozenset(entry.id for pool in pools.values() for entry in pool if entry.id not in told)
        return replace(ledger, brief=(brief & told) | cut, left_out=gone | repeated)

    def _take_entries(
        self, pool: Iterable[LedgerEntry], told: set[str], *, room: int, brief: frozenset[str] = frozenset()
    ) -> int:
        """Add entries of a pool to `told`, in order, as long as they fit; return their tokens."""
        spent = 0
        for entry in pool:
            if entry.id in told:
                continue
            cost = self._estimate_line(entry, brief=entry.id in brief)
            if spent + cost > room:
                break
            told.add(entry.id)
            spent += cost
        return spent

    def _has_room(self, pool: Iterable[LedgerEntry], *, room: int) -> bool:
        """Whether a whole pool fits; stops at the first entry that does not."""
        for entry in pool:
            room -= self._estimate_line(entry)
            if room < 0:
                return False
        return True

    def _estimate_line(self, entry: LedgerEntry, *, brief: bool = False) -> int:
        tokens = self._line_tokens.get((entry.id, brief))
        if tokens is None:
            tokens = estimate_text(render_line(entry, brief=brief)) + LINE_TOKENS
            self._line_tokens[entry.id, brief] = tokens
        return tokens


def must_be_told(entry: LedgerEntry) -> bool:
    """Whether every state holds an entry: pins, the objective, and the work under way."""
    if entry.pinned or (entry.section is Section.OBJECTIVE and entry.speaker is not Speaker.MODEL):
        return True
    return entry.section is Section.HANDOFF and entry.speaker is Speaker.COMPUTED and not entry.text.startswith(ASKED)


def _split_pools(ledger: Ledger, entries: Sequence[LedgerEntry]) -> dict[str, list[LedgerEntry]]:
    """Return entries by the share that pays for them, in each the most important first."""
    pools: dict[str, list[LedgerEntry]] = {"messages": [], "findings": [], "handoff": [], "evidence": []}
    for entry in reversed(entries):
        if entry.section is Section.ACTIVE:
            pools["findings" if entry.speaker is Speaker.AGENT else "messages"].append(entry)
        elif entry.section in (Section.HANDOFF, Section.OBJECTIVE):
            pools["handoff"].append(entry)
        else:
            pools["evidence"].append(entry)
    worth = {finding.text: finding.worth for finding in ledger.journal.findings}
    pools["findings"].sort(key=lambda entry: -worth.get(entry.text, 0))
    return pools
