"""What of a ledger a state has room for.

Each part of the state has a share of its budget, and what one part does not need goes to the others, people's messages first.
What people pinned, what the session is for and the work under way are always told. No entry leaves the ledger: a later, wider
state tells what this one cannot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import ASKED
from threadkeep.compaction.state_text import BRIEF_CHARS, PREFACE, render_line, render_state
from threadkeep.tokens import estimate_bytes, estimate_text

# What the longest of the dialects writes around the text of a message.
MESSAGE_BYTES = 76
# What a bullet and a line end cost.
LINE_TOKENS = 2
# How much of the room for messages goes to whole ones where not all fit.
WHOLE_PERCENT = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBudget:
    """How many tokens a state may hold, and how its parts share them, in percent."""

    tokens: int = 8_000
    messages: int = 45
    findings: int = 25
    handoff: int = 20
    evidence: int = 10


def state_tokens(ledger: Ledger) -> int:
    """Return what the message that carries this state costs in a window."""
    text = json.dumps(render_state(ledger), ensure_ascii=False)
    return estimate_bytes(len(text.encode("utf-8", "replace")) + MESSAGE_BYTES)


def fit(ledger: Ledger, *, in_view: frozenset[str], room_tokens: int, budget: StateBudget) -> Ledger:
    """Return the ledger with what its state leaves out so that it takes at most `room_tokens` and its budget.

    Larger only where what must be told does not fit. `in_view` are entries that messages of the window tell.
    """
    allowed = min(room_tokens, budget.tokens)
    while True:
        fitted = _choose(ledger, in_view=in_view, allowed=allowed, budget=budget)
        over = state_tokens(fitted) - min(room_tokens, budget.tokens)
        if over <= 0 or allowed <= 0:
            return fitted
        allowed -= max(over, 50)


def must_be_told(entry: LedgerEntry) -> bool:
    """Whether an entry stands in every state: pins, what the session is for, and the work under way."""
    if entry.pinned or (entry.section is Section.OBJECTIVE and entry.speaker is not Speaker.MODEL):
        return True
    return entry.section is Section.HANDOFF and entry.speaker is Speaker.COMPUTED and not entry.text.startswith(ASKED)


def _choose(ledger: Ledger, *, in_view: frozenset[str], allowed: int, budget: StateBudget) -> Ledger:
    shown = [entry for entry in ledger.entries if entry.id not in in_view]
    pools = _pools(ledger, [entry for entry in shown if not must_be_told(entry)])
    must = [entry for entry in shown if must_be_told(entry)]
    tight = 2 * sum(map(_cost, must)) > allowed
    cut = frozenset(entry.id for entry in must if tight and entry.section is Section.OBJECTIVE and not entry.pinned)
    room = max(0, allowed - estimate_text(PREFACE) - sum(_cost(entry, brief=entry.id in cut) for entry in must))
    told: set[str] = set()
    spent = sum(
        _take(pools[name], told, room=room * share // 100)
        for name, share in (("findings", budget.findings), ("handoff", budget.handoff), ("evidence", budget.evidence))
    )
    messages = pools["messages"]
    if _fits(messages, room=room - spent):
        spent += _take(messages, told, room=room - spent)
        brief = frozenset[str]()
    else:
        # A part of the room shows more messages by their beginning than it could show whole.
        spent += _take(messages, told, room=(room - spent) * WHOLE_PERCENT // 100)
        brief = _tell_briefly(messages, told, room=room - spent)
        spent = room
    # Findings keep to their share: the best come first, and there is no end to what an agent says.
    for name in ("handoff", "evidence"):
        spent += _take(pools[name], told, room=room - spent)
    gone = frozenset(entry.id for pool in pools.values() for entry in pool if entry.id not in told and entry.id not in brief)
    return replace(ledger, in_view=in_view, brief=brief | cut, left_out=gone)


def _pools(ledger: Ledger, entries: Sequence[LedgerEntry]) -> dict[str, list[LedgerEntry]]:
    """Return entries by the share they are told from, in each the one first that is to stay longest."""
    pools: dict[str, list[LedgerEntry]] = {"messages": [], "findings": [], "handoff": [], "evidence": []}
    for entry in reversed(entries):
        if entry.section is Section.ACTIVE:
            pools["findings" if entry.speaker is Speaker.AGENT else "messages"].append(entry)
        elif entry.section in (Section.HANDOFF, Section.OBJECTIVE):
            pools["handoff"].append(entry)
        else:
            pools["evidence"].append(entry)
    # What a model wrote takes no room from what people said.
    pools["messages"].sort(key=lambda entry: entry.speaker is Speaker.MODEL)
    worth = {finding.text: finding.worth for finding in ledger.journal.findings}
    pools["findings"].sort(key=lambda entry: -worth.get(entry.text, 0))
    return pools


def _take(pool: Iterable[LedgerEntry], told: set[str], *, room: int) -> int:
    """Put entries of a pool among those told, in its order, as long as they fit; return what they take."""
    spent = 0
    for entry in pool:
        if entry.id in told:
            continue
        cost = _cost(entry)
        if spent + cost > room:
            break
        told.add(entry.id)
        spent += cost
    return spent


def _fits(pool: Iterable[LedgerEntry], *, room: int) -> bool:
    """Whether a whole pool fits; no more of it is measured than that takes."""
    for entry in pool:
        room -= _cost(entry)
        if room < 0:
            return False
    return True


def _tell_briefly(pool: Iterable[LedgerEntry], told: set[str], *, room: int) -> frozenset[str]:
    """Return which of the remaining messages are told by their beginning, the newest first."""
    brief: set[str] = set()
    for entry in pool:
        if entry.id in told:
            continue
        room -= estimate_text(entry.text[:BRIEF_CHARS]) + 2 * LINE_TOKENS
        if room < 0:
            break
        brief.add(entry.id)
    return frozenset(brief)


def _cost(entry: LedgerEntry, *, brief: bool = False) -> int:
    return estimate_text(render_line(entry, brief=brief)) + LINE_TOKENS
