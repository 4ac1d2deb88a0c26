"""Builds a thread's records from the steps of an imported transcript, with a checkpoint for each compaction of the client."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from threadkeep.compaction import Ledger
from threadkeep.compaction.audit import AuditReport
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.ledger import dump_ledger
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.dialects.raw_json import split_object
from threadkeep.items import Item, ItemKind, Role, View, digest_body, link_chain, seed_chain
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import (
    Checkpoint,
    KeepEntry,
    LayoutEntry,
    LiteralEntry,
    Pointer,
    RollbackBody,
    TurnBody,
    encode_body,
)
from threadkeep.threads.item_records import PREVIEW_CHARS
from threadkeep.threads.reader import load_metadata
from threadkeep.threads.writer import make_arrival, update_metadata
from threadkeep.tokens import estimate_item
from threadkeep.transfer.record_matcher import Make, Origin, RecordMatcher, RecordPlace
from threadkeep.transfer.recorded_session import RecordedSession, find_recorded_threads
from threadkeep.transfer.transcript_form import Compacted, GoTo, Lane, Note, PutItem, Step, TakeBack, Titled, Trouble

# So many steps are held, and an answer tells from so many characters on.
HELD_STEPS = 512
TELLING_CHARS = 200
# How much of what people said Codex keeps beside a summary.
SAID_TOKENS = 20_000


class Placed(NamedTuple):
    """A position of a layout and its tokens."""

    entry: LayoutEntry
    tokens: int


STRATEGY = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCheckpoint:
    """A compaction by the client, without a state and an audit of ours.

    `cut` is where the kept tail begins, None where nothing before the checkpoint is kept; `tokens_behind` counts that tail.
    """

    layout: tuple[Placed, ...]
    base: int | None
    cut: int | None
    covers: int
    tokens_before: int
    tokens_behind: int

    @property
    def tokens_after(self) -> int:
        return sum(tokens for _, tokens in self.layout) + self.tokens_behind

    def make_body(self, own: Pointer, *, dialect: Dialect) -> Checkpoint:
        """Return the body of its record; `own` is that record's pointer."""
        return Checkpoint(
            strategy=STRATEGY,
            base=self.base,
            cut=own.ordinal if self.cut is None else self.cut,
            covers=self.covers,
            layout=[_add_source(entry, own, dialect=dialect) for entry, _ in self.layout],
            state=msgspec.Raw(dump_ledger(Ledger())),
            audit=msgspec.Raw(msgspec.json.encode(AuditReport(required=0, kept=0))),
            figures={"tokens_before": self.tokens_before, "tokens_after": self.tokens_after, "model_calls": 0},
        )


def _add_source(entry: LayoutEntry, own: Pointer, *, dialect: Dialect) -> LayoutEntry:
    """Name the checkpoint itself as the source of a person's words that are in no other record."""
    if not isinstance(entry, LiteralEntry) or entry.ordinal is not None:
        return entry
    if not dialect.view(Item(bytes(entry.item))).by_person:
        return entry
    return msgspec.structs.replace(entry, thread=own.thread_id, ordinal=own.ordinal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The end of a path. `tokens` counts all of it; `hidden` what checkpoints took out of the window.

    `turn_start` is where the newest turn began; each turn links to the one before it.
    """

    next: int
    chain: bytes
    depth: int
    turn: int
    tokens: int = 0
    hidden: int = 0
    checkpoint: int | None = None
    turns: int = 0
    turn_start: Place | None = None
    said: Said | None = None


class Said(NamedTuple):
    """A person's message on a path, and the one before it."""

    item: RecordedItem
    before: Said | None


# How many items are remembered, to be referenced by compactions; older ones are repeated there.
REMEMBERED = 4_096


class RecordedItem(NamedTuple):
    """An item that has a record."""

    thread_id: str
    ordinal: int
    depth: int
    tokens: int

    @property
    def kept(self) -> Placed:
        """The item as a position of a layout: a reference to its record."""
        return Placed(KeepEntry(thread=self.thread_id, ordinal=self.ordinal, depth=self.depth), self.tokens)


class RecentItems:
    """The newest items of one lane, found by their bytes, or by a person's words in any form."""

    def __init__(self, *, dialect: Dialect, redact: Callable[[bytes], bytes] | None) -> None:
        self._dialect = dialect
        self._redact = redact
        self._by_bytes: OrderedDict[bytes, RecordedItem] = OrderedDict()
        self._by_words: OrderedDict[bytes, RecordedItem] = OrderedDict()

    def remember(self, item: Item, view: View, recorded: RecordedItem) -> None:
        """Remember the record of an item; of equal items the newest counts."""
        _remember(self._by_bytes, digest_body(item.raw), recorded)
        if view.by_person:
            _remember(self._by_words, _digest_words(view), recorded)

    def place(self, item: Item, *, issuer: str) -> Placed:
        """Return the layout position of an item of a compacted history: a reference to its record, else the item itself.

        A person's words in a new form keep their record as the source.
        """
        known = self._by_bytes.get(digest_body(item.raw))
        if known is not None:
            return known.kept
        view = self._dialect.view(item)
        said = self._by_words.get(_digest_words(view)) if view.by_person else None
        raw = self._redact(item.raw) if self._redact else item.raw
        thread_id, ordinal = (said.thread_id, said.ordinal) if said else (None, None)
        entry = LiteralEntry(item=msgspec.Raw(raw), issuer=issuer, thread=thread_id, ordinal=ordinal)
        return Placed(entry, estimate_item(raw))


def _remember(memory: OrderedDict[bytes, RecordedItem], key: bytes, recorded: RecordedItem) -> None:
    memory.pop(key, None)
    memory[key] = recorded
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _digest_words(view: View) -> bytes:
    return blake2b(view.text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Node(NamedTuple):
    """A named step: the path before and after it, and its record if it is an item."""

    before: Place
    after: Place
    item: RecordedItem | None


class ThreadBuilder:
    """Writes the steps of one lane as records."""

    def __init__(
        self,
        backend: Backend,
        lane: Lane,
        *,
        origin: Origin | None = None,
        after: ThreadBuilder | None = None,
        added: Counter[str] | None = None,
        joins_recorded: bool = False,
    ) -> None:
        """Take the lane and, for a fork, its origin and the builder it continues from; `added` counts new records by thread.

        With `joins_recorded`, the lane goes on in the thread in which the gateway recorded its session, if it did.
        """
        self.items = 0
        # What could not be read as expected, by line.
        self.problems: list[tuple[int, str]] = []
        self.dialect: Dialect = find_dialect(lane.dialect)
        self._backend = backend
        self._lane = lane
        key = backend.store.tenant.key
        start = Place(next=1, chain=seed_chain(key, dialect=lane.dialect, agent=lane.agent), depth=0, turn=0)
        self._place: Place = replace(after._place, next=origin.at + 1) if after and origin else start
        self._beginning = self._place
        self._context: Place | None = None
        self._nodes: dict[str, Node] = {}
        self._at: str | None = None
        self._title: str | None = None
        self._landed = RecentItems(dialect=self.dialect, redact=backend.redact)
        self._added = Counter() if added is None else added
        # The first steps, until they tell whether the gateway recorded this session.
        self._held: list[tuple[int, Step]] | None = [] if joins_recorded and lane.session else None
        self._recorded: RecordedSession | None = None
        self._track = RecordMatcher(
            backend,
            lane.thread_id,
            dialect=self.dialect,
            agent=lane.agent,
            origin=origin,
            source=lane.copied_from,
            on_own=self._open,
            added=self._added,
        )

    @property
    def thread_id(self) -> str:
        return self._track.thread_id if self._recorded is None else self._recorded.thread_id

    @property
    def begun(self) -> bool:
        return self._track.begun or self._recorded is not None

    async def is_alone(self) -> bool:
        """Whether no other writer changed the thread since the last step."""
        return self._recorded is None and await self._track.is_alone()

    async def take(self, step: Step, *, line: int = 0) -> None:
        """Write one step, of this line of the file; the first may be held back until `finish`."""
        if self._held is None:
            await self._write(step, line=line)
            return
        self._held.append((line, step))
        view = self.dialect.view(step.item) if isinstance(step, PutItem) else None
        # What a tool printed, or an answer of some length, is not said twice by chance.
        is_telling = view is not None and (view.outputs or (view.role is Role.ASSISTANT and len(view.text) >= TELLING_CHARS))
        if is_telling or len(self._held) >= HELD_STEPS:
            await self._write_held()

    async def _write_held(self) -> None:
        held, self._held = self._held or [], None
        items = [step.item for _, step in held if isinstance(step, PutItem)]
        threads = await find_recorded_threads(self._backend, self._lane, items, self.dialect)
        if threads:
            self._recorded = RecordedSession(self._backend, self._lane, threads, dialect=self.dialect, added=self._added)
            await self._recorded.load()
        for line, step in held:
            await self._write(step, line=line)

    async def _write(self, step: Step, *, line: int) -> None:
        trouble: str | None = None
        match step:
            case Titled():
                self._title = step.title
            case Trouble():
                trouble = step.text
            case _ if self._recorded is not None:
                self.items += isinstance(step, PutItem)
                self._recorded.take(step)
            case PutItem():
                await self._add_item(step)
            case Note():
                await self._add_note(step)
            case TakeBack():
                trouble = await self._take_back(step)
            case GoTo():
                trouble = await self._go_to(step)
            case Compacted():
                trouble = await self._add_compaction(step)
            case Lane():
                raise AssertionError("a builder has one lane")
        if trouble is not None:
            self.problems.append((line, trouble))

    async def finish(self) -> None:
        """Write pending records and the title. More steps may follow."""
        if self._held is not None:
            await self._write_held()
        if self._recorded is not None:
            await self._recorded.finish()
        elif not self._track.begun and self._lane.opening:
            await self._track.find_position()
        await self._track.flush()
        if self._title and self.begun:
            known = await load_metadata(self._backend.store, self.thread_id)
            if known.title is None:
                await update_metadata(self._backend, self.thread_id, title=self._title)
                await self._track.look_again()

    async def origin(self) -> Origin:
        """Return the place reached so far, where another thread may begin."""
        put = await self._track.find_position()
        return Origin(put.thread_id, put.ordinal)

    async def _open(self) -> None:
        """Write the source's own notes, once the thread is its own."""
        for note in self._lane.opening:
            await self._add_note(note)

    async def _put(self, make: Make) -> RecordPlace | None:
        put = await self._track.put(make)
        if put is not None:
            self._place = replace(self._place, next=put.ordinal + 1)
        return put

    def _record(self, kind: RecordKind, body: bytes, *, at_ms: int | None, turn: int, target: int | None = None) -> NewRecord:
        moment = self._backend.clock.now_ms() if at_ms is None else at_ms
        return NewRecord(kind=kind, at_ms=moment, turn=turn, tokens=0, body=body, target=target)

    async def _add_note(self, step: Note) -> None:
        before = self._place
        body = self._redact(step.body) if split_object(step.body) is not None else step.body
        await self._put(lambda _: self._record(RecordKind.NOTE, body, at_ms=step.at_ms, turn=self._place.turn))
        self._name(step.key, before, None)

    async def _add_item(self, step: PutItem) -> None:
        arrived = make_arrival(self.dialect, step.item, redact=self._backend.redact)
        view = arrived.view
        before = self._place
        spoken = view.by_person and view.kind is ItemKind.MESSAGE
        begun = await self._add_turn(view, at_ms=step.at_ms) if spoken else None
        opens = spoken if step.opens_turn is None else step.opens_turn
        link = link_chain(self._backend.store.tenant.key, self._place.chain, arrived.canonical)
        depth = self._place.depth + 1
        put = await self._put(
            lambda _: replace(
                self._record(RecordKind.ITEM, arrived.item.raw, at_ms=step.at_ms, turn=self._place.turn),
                tokens=arrived.tokens,
                chain=link,
                depth=depth,
                redacted=arrived.redacted,
            )
        )
        if put is None:
            raise AssertionError("an item is always kept")
        self.items += 1
        self._place = replace(self._place, chain=link, depth=depth, tokens=self._place.tokens + arrived.tokens)
        self._mark_turn(view, before=before, opens=opens, first=put.ordinal if begun is None else begun.ordinal)
        recorded = RecordedItem(put.thread_id, put.ordinal, depth, arrived.tokens)
        self._landed.remember(step.item, view, recorded)
        if spoken:
            self._place = replace(self._place, said=Said(recorded, before.said))
        self._name(step.key, before, recorded)

    async def _add_turn(self, view: View, *, at_ms: int | None) -> RecordPlace | None:
        turn = self._place.turn + 1
        preview = " ".join(view.said.split())[:PREVIEW_CHARS]
        body = encode_body(TurnBody(preview=preview))
        put = await self._put(lambda _: self._record(RecordKind.TURN, body, at_ms=at_ms, turn=turn))
        self._place = replace(self._place, turn=turn)
        return put

    def _mark_turn(self, view: View, *, before: Place, opens: bool, first: int) -> None:
        """Remember where a turn begins, host context right before it included (except for the first turn)."""
        if opens:
            start = self._context if self._context is not None and before.turns else replace(before, next=first)
            self._place = replace(self._place, turns=before.turns + 1, turn_start=start)
        if view.context is not None and not view.by_person:
            self._context = self._context or replace(before, next=first)
        else:
            self._context = None

    async def _take_back(self, step: TakeBack) -> str | None:
        target = self._place.turn_start
        if target is None:
            return f"a rollback of {step.turns} turns, but there is no turn before it"
        for _ in range(step.turns - 1):
            target = target.turn_start or target
        await self._roll_to(target, turns=step.turns, at_ms=step.at_ms)
        return None

    async def _roll_to(self, target: Place, *, turns: int, at_ms: int | None) -> None:
        body = encode_body(RollbackBody(turns=turns))
        record = self._record(RecordKind.ROLLBACK, body, at_ms=at_ms, turn=target.turn, target=target.next)
        await self._put(lambda _: record)
        self._place = replace(target, next=self._place.next)
        self._context = None

    async def _go_to(self, step: GoTo) -> str | None:
        if step.key == self._at:
            return None
        node = self._nodes.get(step.key) if step.key is not None else None
        if step.key is not None and node is None:
            return f"it follows {step.key[:40]!r}, which is not in this file" if self._nodes else None
        target = node.after if node else self._beginning
        self._at = step.key
        here = self._place
        if (target.chain, target.depth, target.checkpoint) != (here.chain, here.depth, here.checkpoint):
            await self._roll_to(target, turns=max(0, here.turns - target.turns), at_ms=step.at_ms)
        return None

    async def _add_compaction(self, step: Compacted) -> str | None:
        found = self._nodes.get(step.cut) if step.cut is not None else None
        named = [self._nodes.get(each) for each in step.layout if isinstance(each, str)]
        trouble = None
        if step.cut is not None and found is None:
            trouble = f"a compaction keeps what follows {step.cut[:40]!r}, which is not in this file"
        elif any(node is None or node.item is None for node in named):
            trouble = "a compaction keeps a message that is not in this file"
        layout = self._list_said() if step.after_said else []
        layout += [placed for each in step.layout if (placed := self._place_position(each, issuer=step.issuer)) is not None]
        await self._add_checkpoint(layout, cut=found.before if found else None, at_ms=step.at_ms)
        return trouble

    def _list_said(self) -> list[Placed]:
        """Return people's newest messages on the path, oldest first."""
        kept: list[Placed] = []
        said, left = self._place.said, SAID_TOKENS
        while said is not None:
            left -= said.item.tokens
            if left < 0:
                break
            kept.append(said.item.kept)
            said = said.before
        return kept[::-1]

    async def _add_checkpoint(self, layout: Sequence[Placed], *, cut: Place | None, at_ms: int | None) -> None:
        here = self._place
        made = ImportedCheckpoint(
            layout=tuple(layout),
            base=here.checkpoint,
            cut=cut.next if cut else None,
            covers=(cut or here).depth,
            tokens_before=here.tokens - here.hidden,
            tokens_behind=here.tokens - cut.tokens if cut else 0,
        )

        def make(ordinal: int) -> NewRecord:
            checkpoint = made.make_body(Pointer(self.thread_id, ordinal), dialect=self.dialect)
            body = encode_body(checkpoint)
            record = self._record(RecordKind.CHECKPOINT, body, at_ms=at_ms, turn=here.turn, target=checkpoint.cut)
            return replace(record, tokens=made.tokens_after)

        put = await self._put(make)
        if put is not None:
            self._place = replace(self._place, hidden=here.tokens - made.tokens_after, checkpoint=put.ordinal)

    def _place_position(self, position: Item | str, *, issuer: str) -> Placed | None:
        """Return a position of a compacted history; None if it names an item that is not in this file."""
        if isinstance(position, Item):
            return self._landed.place(position, issuer=issuer)
        node = self._nodes.get(position)
        return None if node is None or node.item is None else node.item.kept

    def _redact(self, raw: bytes) -> bytes:
        return self._backend.redact(raw) if self._backend.redact else raw

    def _name(self, key: str | None, before: Place, item: RecordedItem | None) -> None:
        if key is not None:
            self._nodes[key] = Node(before, self._place, item)
            self._at = key
