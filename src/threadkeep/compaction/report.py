"""The report of a compaction: its effect on the window and, line by line, on the state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from threadkeep.compaction.audit import AuditReport
from threadkeep.compaction.early_compaction import Worth
from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.plan import Plan, Position
from threadkeep.hooks import HookRun
from threadkeep.threads import Attempt, EntryKind, LayoutEntry, StateEntry, StubEntry
from threadkeep.tokens import estimate_item

# Labels of handoff lines that stand for different things each time.
SEVERAL = frozenset({"asked", "todo", "open call"})
# What a draft that names no successor leaves as the claim beside an entry it set aside.
WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An entry of both ledgers whose words or place changed."""

    before: LedgerEntry
    after: LedgerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What became of every entry. Each of the later ledger is in one group, or among the unchanged.

    Attributes:
        added: New.
        changed: New words, another section, another pin, or told again.
        retired: Set aside since, with what replaced them; said and set aside in between is among them.
        gone: In the earlier ledger only: computed or drafted anew without them.
        unchanged: How many are as they were.
    """

    added: tuple[LedgerEntry, ...] = ()
    changed: tuple[Change, ...] = ()
    retired: tuple[LedgerEntry, ...] = ()
    gone: tuple[LedgerEntry, ...] = ()
    unchanged: int = 0


def compare(before: Ledger, after: Ledger) -> Comparison:
    """Return what changed from one ledger to another, in the order the entries stand there."""
    earlier = _pair_entries(before.entries, after.entries)
    added: list[LedgerEntry] = []
    changed: list[Change] = []
    retired: list[LedgerEntry] = []
    unchanged = 0
    for index, entry in enumerate(after.entries):
        old = earlier.get(index)
        inactive = entry.section is Section.INACTIVE
        if inactive and (old is None or old.section is not Section.INACTIVE):
            retired.append(entry)
        elif old is None:
            added.append(entry)
        elif _is_changed(old, entry):
            changed.append(Change(before=old, after=entry))
        else:
            unchanged += 1
    paired = {id(entry) for entry in earlier.values()}
    return Comparison(
        added=tuple(added),
        changed=tuple(changed),
        retired=tuple(retired),
        gone=tuple(entry for entry in before.entries if id(entry) not in paired),
        unchanged=unchanged,
    )


def is_withdrawn(entry: LedgerEntry) -> bool:
    """Whether an entry was set aside without anything in its place."""
    return entry.section is Section.INACTIVE and (entry.claim is None or entry.claim.text == WITHDRAWN)


def _pair_entries(before: Sequence[LedgerEntry], after: Sequence[LedgerEntry]) -> dict[int, LedgerEntry]:
    """Return, for positions of `after`, the entry of `before` that is the same thing; none is taken twice."""
    told: defaultdict[object, list[LedgerEntry]] = defaultdict(list)
    for entry in reversed(before):
        told[_make_identity(entry)].append(entry)
    found = {index: told[_make_identity(entry)].pop() for index, entry in enumerate(after) if told[_make_identity(entry)]}
    left = [entry for entries in told.values() for entry in entries]
    names = {index: name for index, entry in enumerate(after) if index not in found and (name := _find_label(entry)) is not None}
    often = Counter(names.values()), Counter(_find_label(entry) for entry in left)
    renamed = {_find_label(entry): entry for entry in left}
    return found | {index: renamed[name] for index, name in names.items() if often[0][name] == often[1][name] == 1}


def _make_identity(entry: LedgerEntry) -> object:
    """Return the speaker, the words and the first source: two entries that share them are the same."""
    if entry.speaker in (Speaker.COMPUTED, Speaker.AGENT):
        return entry.section, entry.text
    return entry.speaker, entry.text, entry.sources[:1]


def _find_label(entry: LedgerEntry) -> object:
    """Return the part that stays when an entry is rewritten: a model's id, a handoff's label; None for other entries."""
    match entry.speaker:
        case Speaker.MODEL:
            return entry.id, entry.born
        case Speaker.COMPUTED:
            label, colon, _ = entry.text.partition(": ")
            one_only = colon and entry.section is Section.HANDOFF and label not in SEVERAL
            return label if one_only else None
        case Speaker.USER | Speaker.AGENT:
            return None


def _is_changed(old: LedgerEntry, new: LedgerEntry) -> bool:
    sources = new.sources if new.speaker in (Speaker.COMPUTED, Speaker.AGENT) else old.sources
    return replace(old, id=new.id, born=new.born, sources=sources) != new


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """Positions of the window with one fate: how many, and what they cost today and then."""

    items: int = 0
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """What a compaction does to the window, part by part; the tokens of all parts are those of the window.

    Attributes:
        replaced: What the state will stand for.
        quoted: What people said that stands behind the state in their own messages, whole or by what of it holds.
        context: Host context that is kept whole.
        request: The message being worked on, where the frontier does not reach back to it.
        frontier: What is kept as it stands in the window today.
        stubbed: Outputs that become one line.
        state: The session state, the old one and the new.
    """

    replaced: PlanPart
    quoted: PlanPart
    context: PlanPart
    request: PlanPart
    frontier: PlanPart
    stubbed: PlanPart
    state: PlanPart


def summarise(plan: Plan, layout: Sequence[LayoutEntry]) -> PlanSummary:
    """Return a plan, and the layout made of it, in figures."""
    lines = {entry.ordinal: estimate_item(bytes(entry.item)) for entry in layout if isinstance(entry, StubEntry)}
    tail = [kept.seen for kept in plan.tail]
    stubbed = {
        seen.entry.source.ordinal: seen
        for seen in tail
        if seen.entry.kind is EntryKind.KEEP and seen.entry.source is not None and seen.entry.source.ordinal in lines
    }
    shortened = {id(seen) for seen in stubbed.values()}
    frontier = [seen for seen in tail if id(seen) not in shortened]
    request = [plan.request] if plan.request else []
    quoted = [quote.seen for quote in plan.quoted if quote.seen is not None]
    others = {id(seen): seen for seen in (*plan.replaced, *quoted, *plan.head, *plan.context, *request, *tail)}.values()
    made = [estimate_item(bytes(entry.item)) for entry in layout if isinstance(entry, StateEntry)]
    return PlanSummary(
        replaced=replace(_summarise_part(plan.replaced), tokens_after=0),
        quoted=_summarise_quotes(plan, lines),
        context=_summarise_part((*plan.head, *plan.context)),
        request=_summarise_part(request),
        frontier=_summarise_part(frontier),
        stubbed=replace(_summarise_part(stubbed.values()), tokens_after=sum(lines[ordinal] for ordinal in stubbed)),
        state=PlanPart(
            items=len(made),
            tokens_before=plan.tokens_before - sum(seen.entry.tokens for seen in others),
            tokens_after=sum(made),
        ),
    )


def _summarise_quotes(plan: Plan, lines: Mapping[int, int]) -> PlanPart:
    """Return what is quoted; what stays as host context too is counted there today."""
    quoted = [quote.seen for quote in plan.quoted if quote.seen is not None]
    context = {id(seen) for seen in plan.context}
    moved = _summarise_part(seen for seen in quoted if id(seen) not in context)
    return replace(
        _summarise_part(quoted),
        tokens_before=moved.tokens_before,
        tokens_after=sum(lines.get(quote.source.ordinal, quote.tokens) for quote in plan.quoted),
    )


def _summarise_part(positions: Iterable[Position]) -> PlanPart:
    sizes = [seen.entry.tokens for seen in positions]
    return PlanPart(items=len(sizes), tokens_before=sum(sizes), tokens_after=sum(sizes))


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
