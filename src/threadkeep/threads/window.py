"""The window: what a model sees next, computed from the newest checkpoint and the items after its cut. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, assert_never

import msgspec

from threadkeep.dialects import DIALECTS, Dialect, Request
from threadkeep.errors import InvalidArgument, RecordNotFound
from threadkeep.items import Item, ItemKind, Role, View
from threadkeep.store import Record, RecordKind
from threadkeep.threads.records import Checkpoint, KeepEntry, LayoutEntry, LiteralEntry, Pointer, Remark, StateEntry, StubEntry
from threadkeep.tokens import Pressure, estimate_bytes, estimate_item, estimate_text


class EntryKind(StrEnum):
    """Where a position of the window comes from: a record, a stub, the state, SessionStart hooks, or another program."""

    KEEP = "keep"
    STUB = "stub"
    STATE = "state"
    START = "start"
    LITERAL = "literal"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEntry:
    """One position of the window.

    Attributes:
        source: The record it comes from; None for the state, hooks' items and most literals.
        depth: Its link of the client's chain.
        after_cut: Whether it comes after the checkpoint's cut.
        issuer: The author of a literal; if it is `sealed`, only the issuer can read it.
    """

    kind: EntryKind
    item: Item
    tokens: int
    turn: int
    source: Pointer | None = None
    depth: int | None = None
    after_cut: bool = True
    issuer: str | None = None
    sealed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A window with the source of each item, and the notes and pins that are not yet in its checkpoint's state.

    These enter the state, and so the window, with the next checkpoint. If something was taken out of the window, a later cut
    must not be before `cut_from`, or it would come back.
    """

    entries: tuple[WindowEntry, ...]
    checkpoint: Checkpoint | None = None
    checkpoint_ordinal: int | None = None
    remarks: tuple[Remark, ...] = ()
    cut_from: int = 0

    def drop_sealed(self, issuer: str | None) -> History:
        """Return the window without items sealed for another than `issuer`; with None, without any sealed item."""
        return replace(self, entries=tuple(e for e in self.entries if not e.sealed or e.issuer == issuer))

    def replace_items(self, places: Collection[Pointer], *, bare: Callable[[Item], Item | None]) -> History:
        """Return the window with the items at `places` replaced by what `bare` returns; None drops the item."""
        shown = (_replace_item(entry, bare) if entry.source in places else entry for entry in self.entries)
        return replace(self, entries=tuple(entry for entry in shown if entry is not None))

    @property
    def said(self) -> tuple[WindowEntry, ...]:
        """The window without the state and without hooks' items."""
        return tuple(entry for entry in self.entries if entry.kind not in (EntryKind.STATE, EntryKind.START))

    @property
    def items(self) -> list[Item]:
        return [entry.item for entry in self.entries]

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)


def assemble(
    *,
    checkpoint: Checkpoint | None,
    checkpoint_ordinal: int | None,
    kept: Mapping[Pointer, Record],
    after: Sequence[Record],
    start: Sequence[Item] = (),
) -> History:
    """Return the window: the checkpoint's layout, then every item of the path from its cut on, oldest first.

    Erased items are left out. `start` are hooks' items for this checkpoint, placed after the state.

    Raises:
        RecordNotFound: The layout names a record that is not among `kept`.
    """
    placed = [_place(entry, kept) for entry in checkpoint.layout if not _is_erased(entry, kept)] if checkpoint else []
    if start:
        place = max((at for at, entry in enumerate(placed, start=1) if entry.kind is EntryKind.STATE), default=len(placed))
        placed[place:place] = [_place_item(msgspec.Raw(item.raw), kind=EntryKind.START) for item in start]
    later = [
        WindowEntry(
            kind=EntryKind.KEEP,
            item=Item(record.body),
            tokens=record.tokens,
            turn=record.turn,
            source=Pointer(record.thread_id, record.ordinal),
            depth=record.depth,
        )
        for record in after
        if record.kind is RecordKind.ITEM and not record.erased
    ]
    return History(entries=(*placed, *later), checkpoint=checkpoint, checkpoint_ordinal=checkpoint_ordinal)


def _replace_item(entry: WindowEntry, bare: Callable[[Item], Item | None]) -> WindowEntry | None:
    item = bare(entry.item)
    return None if item is None else replace(entry, item=item, tokens=estimate_item(item.raw))


def _is_erased(entry: LayoutEntry, kept: Mapping[Pointer, Record]) -> bool:
    record = kept.get(Pointer(entry.thread, entry.ordinal)) if isinstance(entry, KeepEntry) else None
    return record is not None and record.erased


def _place(entry: LayoutEntry, kept: Mapping[Pointer, Record]) -> WindowEntry:
    match entry:
        case StateEntry():
            return _place_item(entry.item, kind=EntryKind.STATE)
        case LiteralEntry():
            source = Pointer(entry.thread, entry.ordinal) if entry.thread is not None and entry.ordinal is not None else None
            return replace(
                _place_item(entry.item, kind=EntryKind.LITERAL), issuer=entry.issuer, source=source, sealed=entry.sealed
            )
        case StubEntry():
            item = Item(bytes(entry.item))
            return _place_record(entry, kept, kind=EntryKind.STUB, item=item, tokens=estimate_item(item.raw))
        case KeepEntry():
            return _place_record(entry, kept, kind=EntryKind.KEEP)
        case _:
            assert_never(entry)


def _place_item(raw: msgspec.Raw, *, kind: EntryKind) -> WindowEntry:
    item = Item(bytes(raw))
    return WindowEntry(kind=kind, item=item, tokens=estimate_item(item.raw), turn=0, after_cut=False)


def _place_record(
    entry: KeepEntry | StubEntry,
    kept: Mapping[Pointer, Record],
    *,
    kind: EntryKind,
    item: Item | None = None,
    tokens: int | None = None,
) -> WindowEntry:
    source = Pointer(entry.thread, entry.ordinal)
    record = kept.get(source)
    if record is None:
        raise RecordNotFound(source.thread_id, source.ordinal)
    return WindowEntry(
        kind=kind,
        item=item or Item(record.body),
        tokens=record.tokens if tokens is None else tokens,
        turn=record.turn,
        source=source,
        depth=record.depth,
        after_cut=False,
    )


# An item without any of these words is no call, output or thought in any dialect. Skipping its view saves most of the time.
MARKS: Final = (b"call", b"tool", b"function", b"reasoning", b"thinking", b"thought", b"mcp")
_MESSAGE: Final = View(kind=ItemKind.MESSAGE, role=Role.USER)


@dataclass(slots=True)
class _Pairs:
    """Outputs that come after a later message, by their call; and calls without an output."""

    late: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unanswered: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))


def close_open_calls(items: Sequence[Item], *, dialect: Dialect, under_way: bool) -> list[Item]:
    """Return `items` as a provider accepts them: every call has an output, and reasoning that led to nothing is dropped.

    A call without an output gets one that says it was aborted; an output that comes after a later message moves to its call.
    The result is stable under appending. Records do not change: a late output is shown the next time.

    Args:
        under_way: The agent is still at work: calls and reasoning after the last message stay as they are.
    """
    views = [dialect.view(item) if any(mark in item.raw for mark in MARKS) else _MESSAGE for item in items]
    last_message = max((at for at, view in enumerate(views) if view.kind is ItemKind.MESSAGE), default=-1)
    settled = last_message if under_way else len(items)
    pairs = _pair_calls(views, settled=settled)
    moved = {at for outputs in pairs.late.values() for at in outputs}
    shown: list[Item] = []
    for at, item in enumerate(items):
        if at in moved or (at < settled and _is_loose_thought(views[at], items[at + 1 : at + 2], dialect=dialect)):
            continue
        shown.append(item)
        shown.extend(items[output] for output in pairs.late.get(at, ()))
        shown.extend(dialect.abort_calls(item, pairs.unanswered[at]) if at in pairs.unanswered else ())
    return shown


def _pair_calls(views: Sequence[View], *, settled: int) -> _Pairs:
    pairs = _Pairs()
    opened: dict[str, int] = {}
    messages = 0
    messages_at: list[int] = []
    for at, view in enumerate(views):
        messages_at.append(messages)
        messages += view.kind is ItemKind.MESSAGE
        callers = [opened.pop(call_id) for call_id in view.closes if call_id in opened]
        if callers and view.kind is ItemKind.OUTPUT and messages_at[max(callers)] < messages_at[at]:
            pairs.late[max(callers)].append(at)
        for call_id in view.opens:
            if call_id in opened:
                pairs.unanswered[opened[call_id]].append(call_id)
            opened[call_id] = at
    for call_id, at in opened.items():
        if at < settled:
            pairs.unanswered[at].append(call_id)
    return pairs


def _is_loose_thought(view: View, following: Sequence[Item], *, dialect: Dialect) -> bool:
    """Whether a message or call of the model does not follow this reasoning."""
    if view.kind is not ItemKind.REASONING:
        return False
    after = [dialect.view(item) for item in following]
    return not after or after[0].role is not Role.ASSISTANT or after[0].kind is ItemKind.REASONING


# Request fields that have another place.
SAID_BY_OTHERS: Final = frozenset({"model", "stream"}).union(
    *({dialect.history_field, *dialect.compose(system="-", tools=({},), cache_key="-").fields} for dialect in DIALECTS.values())
)


@dataclass(frozen=True, slots=True)
class Head:
    """What goes out with every request beside the history; it counts against the window and is never compacted.

    Attributes:
        fields: More request fields, in the provider's form: `reasoning`, `temperature`, `context_management`.
    """

    system: str | None = None
    tools: Sequence[Mapping[str, object]] = ()
    fields: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if taken := sorted(SAID_BY_OTHERS & self.fields.keys()):
            reason = "the history, system, tools and model have their own place"
            raise InvalidArgument("fields", f"a head's fields cannot hold {', '.join(taken)}: {reason}")

    @property
    def tokens(self) -> int:
        """Its estimated size."""
        tools = estimate_bytes(len(msgspec.json.encode(list(self.tools)))) if self.tools else 0
        return tools + (estimate_text(self.system) if self.system else 0)

    def request(self, dialect: Dialect, *, cache_key: str) -> Request:
        """Return a thread's request without its history."""
        said = dialect.compose(system=self.system, tools=self.tools, cache_key=cache_key)
        more = {name: msgspec.json.encode(value) for name, value in self.fields.items()}
        return replace(said, fields={**said.fields, **more})


class Window(list[dict[str, Any]]):
    """What to send next: provider JSON, oldest first, and what is known about it."""

    def __init__(
        self,
        items: list[dict[str, Any]],
        *,
        tokens: int,
        cache_key: str,
        checkpoint: int | None,
        pressure: Pressure,
        trouble: str | None = None,
        holds_compaction: bool = False,
    ) -> None:
        super().__init__(items)
        self.tokens = tokens
        self.cache_key = cache_key
        self.checkpoint = checkpoint
        self.pressure = pressure
        self.trouble = trouble
        """Why a compaction that was due did not happen, in words for a person."""
        self.holds_compaction = holds_compaction
        """Whether the provider compacted by itself in an answer, and no checkpoint stands for that yet."""
