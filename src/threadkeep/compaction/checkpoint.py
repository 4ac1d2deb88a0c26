"""Makes the layout that replaces a span, and checks the structure of the new window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from threadkeep.compaction.facts.tools import flatten
from threadkeep.compaction.plan import Plan, Position, Quote, TailPosition
from threadkeep.compaction.transcript import tell_call
from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind, Role, View, find_open_calls, find_orphans
from threadkeep.threads import EntryKind, KeepEntry, LayoutEntry, LiteralEntry, StateEntry, StubEntry
from threadkeep.tokens import estimate_text


def lay_out(plan: Plan, *, state: Item, dialect: Dialect, literals: Sequence[LiteralEntry] = ()) -> list[LayoutEntry]:
    """Return the entries before the cut: head, host context, state, people's newest messages, the running request, and the older
    part of the frontier.

    `literals` follow the head: a provider's own compaction replaces everything before it.
    """
    systems = [seen for seen in plan.context if seen.view.role is Role.SYSTEM]
    return [
        *(keep_entry(seen) for seen in plan.head),
        *literals,
        *(keep_entry(seen) for seen in plan.context if seen.view.role is not Role.SYSTEM),
        StateEntry(item=msgspec.Raw(state.raw)),
        # Behind the state: a history may not begin with one where instructions have a field of their own.
        *(keep_entry(seen) for seen in systems),
        *_place_messages(plan, dialect),
        *place_tail(plan, dialect=dialect),
    ]


def _place_messages(plan: Plan, dialect: Dialect) -> list[LayoutEntry]:
    """Return people's newest messages and the running request, in order: words beside a tool's output may be newer."""
    said = [(quote.source.ordinal, quote_entry(quote, dialect)) for quote in plan.quoted]
    if plan.request is not None and plan.request.entry.source is not None:
        said.append((plan.request.entry.source.ordinal, keep_entry(plan.request)))
    return [entry for _, entry in sorted(said, key=lambda each: each[0])]


def place_tail(plan: Plan, *, dialect: Dialect) -> list[LayoutEntry]:
    """Return the part of the tail that the layout must hold."""
    calls = {call_id: seen.view for seen in (*plan.replaced, *(kept.seen for kept in plan.tail)) for call_id in seen.view.opens}
    return [_make_tail_entry(kept, calls=calls, dialect=dialect) for kept in plan.tail[: count_placed(plan)]]


def count_placed(plan: Plan) -> int:
    """Return how many positions of the tail the layout must hold: up to the last that is a stub, was placed by an older one, or
    stands before what was taken out of the window.
    """
    placed = [index for index, kept in enumerate(plan.tail) if kept.stub or _is_placed(kept, plan)]
    return placed[-1] + 1 if placed else 0


def _is_placed(kept: TailPosition, plan: Plan) -> bool:
    source = kept.seen.entry.source
    return not kept.seen.entry.after_cut or (source is not None and source.ordinal < plan.cut_from)


def find_cut(plan: Plan) -> tuple[int, int]:
    """Return the cut and how many links of the chain stand before it."""
    loose = plan.tail[count_placed(plan) :]
    if loose and (source := loose[0].seen.entry.source) is not None and (depth := loose[0].seen.entry.depth) is not None:
        return source.ordinal, depth - 1
    return plan.tip.next, plan.tip.depth


def find_faults(before: list[View], after: list[View], *, needs_request: bool = True) -> list[str]:
    """Return the faults in the structure of a compacted window; none if a provider can read it.

    `before` is the window it replaces: a call that was open there may stay open. `needs_request` asks for a person's message.
    """
    found = [f"output {call_id} has no call" for call_id in find_orphans(after) if call_id not in find_orphans(before)]
    running = set(find_open_calls(before))
    found.extend(f"call {call_id} lost its output" for call_id in find_open_calls(after) if call_id not in running)
    if _count_loose_reasoning(after) > _count_loose_reasoning(before):
        found.append("reasoning stands without the item it belongs to")
    if needs_request and not any(view.by_person for view in after) and any(view.by_person for view in before):
        found.append("no request of a person is left")
    return found


def _count_loose_reasoning(views: list[View]) -> int:
    """Return how many reasoning items are followed by nothing of the model's; an interrupted turn leaves one."""
    following = [*views[1:], None]
    pairs = zip(views, following, strict=True)
    return sum(
        1 for view, after in pairs if view.kind is ItemKind.REASONING and (after is None or after.role is not Role.ASSISTANT)
    )


def quote_entry(quote: Quote, dialect: Dialect) -> LayoutEntry:
    """Return the entry for a person's message, unchanged or shortened."""
    if quote.text is None and quote.seen is not None:
        return keep_entry(quote.seen)
    depth = quote.seen.entry.depth if quote.seen is not None else None
    item = dialect.make_user_message(quote.text or "")
    return StubEntry(thread=quote.source.thread_id, ordinal=quote.source.ordinal, depth=depth, item=msgspec.Raw(item.raw))


def keep_entry(seen: Position) -> LayoutEntry:
    """Return the entry that keeps a position of the window as it stands there."""
    source = seen.entry.source
    if seen.entry.kind is EntryKind.LITERAL:
        return LiteralEntry(
            item=msgspec.Raw(seen.entry.item.raw),
            issuer=seen.entry.issuer,
            sealed=seen.entry.sealed,
            thread=source.thread_id if source else None,
            ordinal=source.ordinal if source else None,
        )
    if source is None:
        raise AssertionError("only the state and literals have no record, and the state is never kept")
    if seen.entry.kind is EntryKind.STUB:
        return _make_stub(seen, seen.entry.item)
    return KeepEntry(thread=source.thread_id, ordinal=source.ordinal, depth=seen.entry.depth)


def _make_stub(seen: Position, item: Item) -> LayoutEntry:
    source = seen.entry.source
    if source is None:
        raise AssertionError("a stub stands for a record")
    raw = msgspec.Raw(item.raw)
    return StubEntry(thread=source.thread_id, ordinal=source.ordinal, depth=seen.entry.depth, item=raw)


def _make_tail_entry(kept: TailPosition, *, calls: Mapping[str, View], dialect: Dialect) -> LayoutEntry:
    # A literal has no record that a stub could point at.
    if not kept.stub or kept.seen.entry.kind in (EntryKind.STUB, EntryKind.LITERAL):
        return keep_entry(kept.seen)
    text = _describe_output(kept.seen, calls) if kept.cut_tokens is None else _cut_output(kept.seen, tokens=kept.cut_tokens)
    stub = dialect.replace_output(kept.seen.entry.item, text)
    return _make_stub(kept.seen, stub) if stub else keep_entry(kept.seen)


def _cut_output(seen: Position, *, tokens: int) -> str:
    """Return the beginning and the end of an output, with a pointer to the whole between them."""
    ordinal = seen.entry.source.ordinal if seen.entry.source else 0
    text = seen.view.text
    size = max(estimate_text(text), 1)
    keep = len(text) * tokens // size
    if keep >= len(text):
        return text
    head, tail = text[: keep * 2 // 3].rstrip(), text[len(text) - keep // 3 :].lstrip()
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters left out; in full at #{ordinal} …]\n{tail}"


def _describe_output(seen: Position, calls: Mapping[str, View]) -> str:
    """Return one line for an output: its call, its size, its beginning and a pointer to it."""
    call = next((calls[call_id] for call_id in seen.view.closes if call_id in calls), None)
    ran = f"{call.tool}: {flatten(tell_call(call))[:60]}" if call else "output"
    ordinal = seen.entry.source.ordinal if seen.entry.source else 0
    return f"[{ran}; {seen.entry.tokens} tokens compacted away, in full at #{ordinal}; it began: {flatten(seen.view.text)[:80]}]"
