"""Decides which items a compaction replaces and which it keeps, as a plain value.

The window is cut at one of its boundaries (`items.boundaries`), as far back as the frontier's budget allows, and before a
person's message if possible. Two things are always kept whole: the newest version of each host context, and the current request
of a person or another agent. Tool outputs that the model has not read yet are kept as far as there is room, because the model
would call the tools again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from threadkeep.compaction.facts.facts import ObservedItem
from threadkeep.items import Item, ItemKind, Role, View, find_boundaries
from threadkeep.threads import EntryKind, History, Pointer, Tip, WindowEntry
from threadkeep.threads.mailbox import is_task

DEFAULT_WINDOW_TOKENS = 258_400
FRONTIER_FLOOR_TOKENS = 2_000
# A tool's output that the model has read keeps its beginning and its end, in so many tokens, if it is larger than that and not
# among the newest. A frontier of many steps with short outputs tells what comes next better than one of few steps in full.
CUT_TOKENS = 60
CUT_ABOVE_TOKENS = 280
# The newest outputs stay whole as far as this share of the frontier's budget goes; of a small one as far as so many tokens, or a
# half of it.
FRESH_PERCENT = 10
FRESH_TOKENS = 600
# The frontier begins with a whole turn if that keeps so much of it.
WHOLE_TURN_PERCENT = 85
# Behind a state stands so much of what a hand-off would quote of the user's messages.
QUOTED_PERCENT = 15
# What an item costs around a cut output: its ids, and the pointer to the whole.
AROUND_CUT_TOKENS = 45
# What the one line costs that stands for an output told again later.
STUB_TOKENS = 60
# Of an output that does not fit, so much at least is worth showing.
LEAST_CUT_TOKENS = 300
# Outputs the model has not read yet may take so many times the frontier's budget, which is a tenth of a window at most.
UNREAD_FRONTIERS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position of the window: its entry and the view of its item."""

    entry: WindowEntry
    view: View


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPosition:
    """A position of the tail: as it is, or with its output as one line, or as its beginning and end in `cut_tokens`."""

    seen: Position
    stub: bool
    cut_tokens: int | None = None

    @property
    def tokens(self) -> int:
        """Its size in the new window."""
        if self.cut_tokens is not None:
            return self.cut_tokens + AROUND_CUT_TOKENS
        is_large = self.seen.view.kind is ItemKind.OUTPUT and self.seen.entry.tokens > CUT_ABOVE_TOKENS
        return STUB_TOKENS if self.stub and is_large else self.seen.entry.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A message that the new window tells outside of the state: as it stands in the window (`seen`), or as `text`."""

    source: Pointer
    tokens: int
    seen: Position | None = None
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The items to replace and the items to keep, in window order.

    Attributes:
        head: Instructions and tools that the window began with; they stay in front.
        context: Host context from the replaced part, the newest of each section; what is the system's comes last.
        request: The person's message the thread is working on, where the cut falls behind it.
        tail: The frontier, and everything after it.
        replaced: Everything else but the old state.
        cut_from: The cut lies at this ordinal or behind it.
        quoted: What people said that stands behind the state in messages of their own, and, from the beginning, the task of
            another agent that the thread is working on.
    """

    tip: Tip
    context: tuple[Position, ...]
    request: Position | None
    tail: tuple[TailPosition, ...]
    replaced: tuple[Position, ...]
    tokens_before: int
    cut_from: int = 0
    quoted: tuple[Quote, ...] = ()
    head: tuple[Position, ...] = ()

    def with_quotes(self, quotes: Sequence[Quote]) -> Plan:
        """Return the plan with these of the replaced messages behind the state, in the order they stood in."""
        staying = {id(quote.seen) for quote in quotes if quote.seen is not None}
        left = tuple(seen for seen in self.replaced if id(seen) not in staying)
        return replace(self, quoted=(*self.quoted, *quotes), replaced=left)

    def release_request(self) -> Plan:
        """Return the plan with its request among what is replaced, if the model has answered it in words."""
        last = self.replaced[-1].view if self.replaced and not self.tail else None
        if self.request is None or last is None or last.kind is not ItemKind.MESSAGE or last.role is not Role.ASSISTANT:
            return self
        return replace(self, request=None, replaced=tuple(_sort_positions((*self.replaced, self.request))))

    @property
    def tail_tokens(self) -> int:
        return sum(position.tokens for position in self.tail)

    @property
    def kept_tokens(self) -> int:
        """The size of the new window without the state."""
        whole = [*self.head, *self.context, *([self.request] if self.request else [])]
        kept = sum(quote.tokens for quote in self.quoted) + self.tail_tokens
        return sum(seen.entry.tokens for seen in whole) + kept

    @property
    def kept_messages(self) -> frozenset[Pointer]:
        """The records of people's messages whose words stay where they are, in a shortened item, too."""
        whole = (*self.context, *((self.request,) if self.request else ()), *(kept.seen for kept in self.tail))
        quoted = (quote.seen for quote in self.quoted if quote.seen is not None and quote.text is None)
        said = (seen for seen in (*whole, *quoted) if seen.view.by_person)
        return frozenset(seen.entry.source for seen in said if seen.entry.source is not None)

    # What reads the whole window is looked at once: each step of a compaction asks for it.
    @cached_property
    def spoken(self) -> tuple[Position, ...]:
        """Every message of a person in the window, oldest first; one that was shortened is in the ledger already."""
        return tuple(seen for seen in self._in_order if seen.view.by_person and seen.entry.kind is not EntryKind.STUB)

    @cached_property
    def observed(self) -> tuple[ObservedItem, ...]:
        """Every item of the window that stands there as it was recorded, and what people said as another's compaction kept it,
        oldest first.
        """
        originals = (
            seen
            for seen in self._in_order
            if seen.entry.kind is EntryKind.KEEP or (seen.entry.kind is EntryKind.LITERAL and seen.view.by_person)
        )
        window = ((seen.view, seen.entry.source, seen.entry.item) for seen in originals)
        return tuple(ObservedItem(view=view, source=source, item=item) for view, source, item in window if source is not None)

    @cached_property
    def _in_order(self) -> tuple[Position, ...]:
        """Everything that was said or done, as it was; what a person said beside host context was said at its own time."""
        spoken = (seen for seen in self.context if seen.view.by_person)
        held = {id(seen) for seen in self.context}
        quoted = (quote.seen for quote in self.quoted if quote.seen is not None and id(quote.seen) not in held)
        request = (self.request,) if self.request else ()
        found = (*spoken, *self.replaced, *quoted, *request, *(kept.seen for kept in self.tail))
        return tuple(_sort_positions(found))


def _sort_positions(found: Iterable[Position]) -> list[Position]:
    return sorted(found, key=lambda seen: seen.entry.source.ordinal if seen.entry.source else 0)


def size_frontier(full_tokens: int, *, window_tokens: int | None) -> int:
    """Return how many tokens of recent history stay: a tenth of what there is, or 2,000 if that is no more than a quarter of it;
    at most a tenth of the window.
    """
    cap = (window_tokens or DEFAULT_WINDOW_TOKENS) // 10
    return min(max(full_tokens // 10, min(FRONTIER_FLOOR_TOKENS, full_tokens // 4)), cap)


def size_quotes(user_tokens: int, *, window_tokens: int | None) -> int:
    """Return how many tokens of what people said stand behind a state: a part of what a hand-off quotes, as the state tells
    the rest of it; at most a tenth of the window.
    """
    return min(user_tokens * QUOTED_PERCENT // 100, (window_tokens or DEFAULT_WINDOW_TOKENS) // 10)


@dataclass(frozen=True, kw_only=True)
class Positions:
    """What stands in a window beside its state, and what does not depend on a budget: all plans for the window share it."""

    history: History
    tip: Tip
    seen: tuple[Position, ...]

    @cached_property
    def cuts(self) -> list[int]:
        """The indices at which the window can be cut."""
        return find_boundaries([position.view for position in self.seen])

    @cached_property
    def outputs(self) -> list[int]:
        return [index for index, position in enumerate(self.seen) if position.view.kind is ItemKind.OUTPUT]

    @cached_property
    def newest_outputs(self) -> dict[str, int]:
        """Where each output stands last, by its text."""
        return {self.seen[index].view.text: index for index in self.outputs}


def read_positions(history: History, *, view: Callable[[Item], View], tip: Tip) -> Positions:
    """Return the positions of a window that plans are made for."""
    return Positions(history=history, tip=tip, seen=tuple(Position(entry=entry, view=view(entry.item)) for entry in history.said))


def plan_cut(positions: Positions, *, frontier_tokens: int, reach_tokens: int = 0) -> Plan:
    """Decide what a compaction replaces when the frontier may hold `frontier_tokens`.

    If less than half of that can be filled, because the next step back is a large one, the step is kept up to `reach_tokens`.
    """
    unread = _find_unread_outputs(positions.seen) if frontier_tokens else []
    kept = _shorten_outputs(positions, unread=unread, frontier_tokens=frontier_tokens)
    start = min(
        _find_tail_start(positions, kept, budget=frontier_tokens, reach=reach_tokens),
        _find_pending_start(positions.seen),
        _find_calls_start(positions, unread),
    )
    return _make_plan(positions, tuple(kept[start:]))


def plan_from(positions: Positions, *, ordinal: int) -> Plan:
    """Decide what is replaced where all that was recorded from `ordinal` on stays as it is, and calls with their outputs."""
    places = (index for index, position in enumerate(positions.seen) if _is_from(position, ordinal))
    first = next(places, len(positions.seen))
    start = max((cut for cut in positions.cuts if cut <= first), default=0)
    tail = tuple(TailPosition(seen=position, stub=position.entry.kind is EntryKind.STUB) for position in positions.seen[start:])
    return _make_plan(positions, tail)


def _is_from(position: Position, ordinal: int) -> bool:
    source = position.entry.source
    return source is not None and source.ordinal >= ordinal


def _make_plan(positions: Positions, tail: tuple[TailPosition, ...]) -> Plan:
    seen = positions.seen
    start = len(seen) - len(tail)
    request = _find_request(seen, start)
    head = _find_head(positions)
    # A frontier that reaches back to the beginning holds none of it: it would stand behind the state.
    leading = {id(position) for position in head}
    tail = tuple(kept for kept in tail if id(kept.seen) not in leading)
    front = {position.view.context for position in head}
    newest = (position for position in _find_newest_context(seen, start) if position is not request)
    others = (position for position in newest if position.view.context not in front)
    context = tuple(sorted(others, key=lambda position: position.view.role is Role.SYSTEM))
    tasks = _find_tasks(seen, start)
    special = {id(position) for position in (*head, *context, *((request,) if request else ()), *tasks)}
    return Plan(
        tip=positions.tip,
        head=head,
        context=context,
        request=request,
        tail=tail,
        replaced=tuple(position for position in seen[:start] if id(position) not in special),
        tokens_before=positions.history.tokens,
        cut_from=positions.history.cut_from,
        quoted=tuple(
            Quote(source=task.entry.source, seen=task, tokens=task.entry.tokens)
            for task in tasks
            if task.entry.source is not None
        ),
    )


def _shorten_outputs(positions: Positions, *, unread: Sequence[int], frontier_tokens: int) -> list[TailPosition]:
    """Return each position as the tail would hold it.

    Large outputs keep their beginning and end, unless they are among the newest, or unread: then they are whole as far as there
    is room, and the one that no longer fits takes what is left. An output that a later one repeats is one line.
    """
    seen, known = positions.seen, set(unread)
    read = [index for index in positions.outputs if index not in known]
    room = {
        **_share_room(seen, unread, room=UNREAD_FRONTIERS * frontier_tokens),
        **_share_room(seen, read, room=max(frontier_tokens * FRESH_PERCENT // 100, min(FRESH_TOKENS, frontier_tokens // 2))),
    }
    kept: list[TailPosition] = []
    for index, position in enumerate(seen):
        entry = position.entry
        large = position.view.kind is ItemKind.OUTPUT and entry.tokens > CUT_ABOVE_TOKENS
        repeated = large and positions.newest_outputs[position.view.text] != index
        cut = large and entry.tokens > room.get(index, 0)
        stub = entry.kind is EntryKind.STUB or repeated or cut
        shown = max(room.get(index, 0) - AROUND_CUT_TOKENS, CUT_TOKENS) if cut and not repeated else None
        kept.append(TailPosition(seen=position, stub=stub, cut_tokens=shown if entry.kind is not EntryKind.STUB else None))
    return kept


def _share_room(seen: Sequence[Position], outputs: Sequence[int], *, room: int) -> dict[int, int]:
    """Return how many tokens each of these outputs may take, the newest first: all it needs, until there is no more room."""
    shares: dict[int, int] = {}
    for index in reversed(outputs):
        needs = seen[index].entry.tokens
        if needs > room:
            if room >= LEAST_CUT_TOKENS:
                shares[index] = room
            break
        shares[index] = needs
        room -= needs
    return shares


def _find_unread_outputs(seen: Sequence[Position]) -> list[int]:
    """Return the outputs behind everything the model said: it has not read them yet."""
    start = len(seen)
    while start and (seen[start - 1].view.kind is ItemKind.OUTPUT or _is_input(seen[start - 1].view)):
        start -= 1
    return [index for index in range(start, len(seen)) if seen[index].view.kind is ItemKind.OUTPUT]


def _find_calls_start(positions: Positions, unread: Sequence[int]) -> int:
    """Return the index at which the calls begin whose outputs are unread; the end, if there are none."""
    return max(cut for cut in positions.cuts if cut <= unread[0]) if unread else len(positions.seen)


def _find_tail_start(positions: Positions, kept: list[TailPosition], *, budget: int, reach: int) -> int:
    """Return the index the tail begins at: the oldest cut within budget, or a person's message after it that keeps most of it.

    A cut within `reach` if those within budget fill less than half of it.

    What is under way (an open call, reasoning still without its item) is kept whatever it costs.
    """
    seen, cuts = positions.seen, positions.cuts
    sizes = [0] * (len(seen) + 1)
    for index in range(len(seen) - 1, -1, -1):
        sizes[index] = sizes[index + 1] + kept[index].tokens
    oldest = next((cut for cut in cuts if sizes[cut] <= budget), cuts[-1])
    if 2 * sizes[oldest] < budget:
        oldest = max((cut for cut in cuts if cut < oldest and sizes[cut] <= reach), default=oldest)
    spoken = next((cut for cut in cuts if cut >= oldest and cut < len(seen) and _is_turn_start(seen, cut)), None)
    if spoken is not None and 100 * sizes[spoken] >= WHOLE_TURN_PERCENT * sizes[oldest]:
        return spoken
    return oldest


def _find_pending_start(seen: Sequence[Position]) -> int:
    """Return the index at which input begins that nobody has answered, whatever it costs to keep; the end, if there is none."""
    start = len(seen)
    while start and _is_input(seen[start - 1].view):
        start -= 1
    return next((index for index in range(start, len(seen)) if _is_request_or_task(seen[index].view)), len(seen))


def _is_turn_start(seen: Sequence[Position], index: int) -> bool:
    """Whether a turn begins at `index`: a person's message or an agent's task, or host context that leads up to one."""
    for position in seen[index:]:
        if _is_request_or_task(position.view):
            return True
        if position.view.context is None:
            return False
    return False


def _find_request(seen: Sequence[Position], start: int) -> Position | None:
    """Return the newest person's message where it stands before the tail: its turn is still going on."""
    if any(_is_request(position.view) for position in seen[start:]):
        return None
    return next((position for position in reversed(seen[:start]) if _is_request(position.view)), None)


def _find_tasks(seen: Sequence[Position], start: int) -> tuple[Position, ...]:
    """Return what other agents asked for last, where it stands before the tail and nobody asked for anything since."""
    newest = next((index for index in reversed(range(len(seen))) if _is_request_or_task(seen[index].view)), len(seen))
    if newest >= start or not _is_task(seen[newest].view):
        return ()
    first = newest
    while first and _is_input(seen[first - 1].view):
        first -= 1
    return tuple(position for position in seen[first : newest + 1] if _is_task(position.view))


def _is_input(view: View) -> bool:
    return view.kind is ItemKind.MESSAGE and view.role is not Role.ASSISTANT


def _is_request(view: View) -> bool:
    """Whether a person's message stands on its own; words beside a tool's output belong to the turn that called the tool."""
    return view.by_person and view.kind is ItemKind.MESSAGE


def _is_task(view: View) -> bool:
    """Whether another agent asks for work: no person's words, and all the same what the thread is there for."""
    return _is_input(view) and not view.by_person and (view.is_task or is_task(view.text))


def _is_request_or_task(view: View) -> bool:
    return _is_request(view) or _is_task(view)


def _find_head(positions: Positions) -> tuple[Position, ...]:
    """Return the instructions and tools a window begins with, but for those of which there is a newer version.

    What stands behind a state is not in front, though everything before it was replaced.
    """
    front = len(list(takewhile(lambda entry: entry.kind not in (EntryKind.STATE, EntryKind.START), positions.history.entries)))
    seen = positions.seen
    leading = takewhile(lambda position: position.view.role is Role.SYSTEM, seen[:front])
    texts = {position.view.context: position.view.text for position in seen if position.view.context is not None}
    return tuple(position for position in leading if texts.get(position.view.context or "") == position.view.text)


def _find_newest_context(seen: Sequence[Position], start: int) -> tuple[Position, ...]:
    """Return the newest version of each section of host context that the tail does not hold, in window order."""
    held = {position.view.context for position in seen[start:]}
    newest: dict[str, Position] = {}
    for position in seen[:start]:
        section = position.view.context
        if section is not None and section not in held:
            newest.pop(section, None)
            newest[section] = position
    return tuple(newest.values())
