"""The remote strategy: the provider compacts by itself, and the window holds its item and a readable state.

Only the provider and the account of the request can read the item; requests to others get the state alone. A provider may also
compact within a reply, under `context_management`. Its item replaces everything before it, and the provider ignores the items in
front of it: in the frontier it would hide the state. So every compaction takes it out of the window; `remote` puts the newest one
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadkeep.compaction.strategies.handoff import SUMMARY_TOKENS
from threadkeep.compaction.strategies.instructions import choose_answer_tokens, write_handoff_instruction
from threadkeep.compaction.strategies.requests import OVER_BUDGET, NotAsked, estimate_request, select_settled
from threadkeep.compaction.strategies.session import SESSION
from threadkeep.compaction.strategies.strategy import Brief, Draft, DraftRefused, Strategy, Summariser, WrittenCompaction
from threadkeep.dialects import Dialect, Request
from threadkeep.items import Item
from threadkeep.threads import EntryKind, History, WindowEntry
from threadkeep.tokens import estimate_item


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """A window without providers' compactions, and the newest of these; None if there is none."""

    history: History
    written: WrittenCompaction | None = None


def holds_compaction(history: History, dialect: Dialect) -> bool:
    """Whether the window holds a reply with a provider's own compaction."""
    return take_out(history, dialect).written is not None


def take_out(history: History, dialect: Dialect) -> TakenOut:
    """Return a window without providers' compactions; the same window if it has none."""
    written: WrittenCompaction | None = None
    kept: list[WindowEntry] = []
    for entry in history.entries:
        is_recorded = entry.source is not None and entry.kind in (EntryKind.KEEP, EntryKind.STUB)
        found = dialect.split_compaction(entry.item) if is_recorded else None
        if found is None or found.written is None or entry.source is None:
            kept.append(entry)
            continue
        written = WrittenCompaction(item=found.written, place=entry.source)
        if found.rest is not None:
            kept.append(replace(entry, kind=EntryKind.STUB, item=found.rest, tokens=estimate_item(found.rest.raw)))
    if written is None:
        return TakenOut(history=history)
    cut_history = replace(history, entries=tuple(kept), cut_from=written.place.ordinal + 1)
    return TakenOut(history=cut_history, written=written)


def find_adopted(written: Item, *, issuer: str) -> Draft:
    """Return the draft that a provider wrote by itself in a reply to `issuer`."""
    return Draft(strategy=REMOTE, literals=(written,), issuer=issuer)


async def draft(brief: Brief, summariser: Summariser) -> Draft:
    """Return the provider's replacement for the settled part of the window.

    Raises:
        NotAsked: The provider cannot compact, or the settled part is empty or too large.
        DraftRefused: The reply holds no compaction.
        ModelError: The request failed.
    """
    if summariser.compact is None or summariser.dialect.name != brief.dialect.name:
        raise NotAsked("not_offered")
    own = summariser.own or Request(fields={}, head=(), items=())
    settled = [seen.entry.item for seen in select_settled(brief.window_for(summariser))]
    if not settled:
        raise NotAsked("empty")
    request = Request(fields=own.fields, head=own.head, items=tuple(brief.dialect.arrange(settled)))
    provider = brief.dialect.api.compaction
    if provider is not None and (brief.goal.prompt or brief.goal.focus):
        target = choose_answer_tokens(brief.plan.tokens_before, most=SUMMARY_TOKENS)
        asked = write_handoff_instruction(prompt=brief.goal.prompt, focus=brief.goal.focus, target_tokens=target)
        request = provider.instruct(request, asked)
    size = estimate_request(request)
    if size > summariser.window_tokens:
        raise NotAsked("too_large")
    if not summariser.may_read(size):
        raise NotAsked(OVER_BUDGET)
    made = await summariser.compact(request)
    # Other items of the reply are not needed.
    literals = tuple(written for item in made.items if (written := brief.dialect.split_compaction(item).written) is not None)
    if not literals:
        raise DraftRefused("empty")
    return Draft(strategy=REMOTE, literals=literals, issuer=made.issuer)


REMOTE = Strategy(name="remote", draft=draft, fallback=SESSION)
