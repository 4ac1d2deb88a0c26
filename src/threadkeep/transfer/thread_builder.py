"""Builds a thread's records from the steps of a foreign transcript."""

from __future__ import annotations

import asyncio
import struct
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import IO, Final, NamedTuple

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.dialects.raw_json import split_object
from threadkeep.items import CHAIN_BYTES, Item, ItemKind, View, digest_body, link_chain, seed_chain
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import KeepEntry, LiteralEntry, Pointer, RollbackBody, TurnBody, encode_body
from threadkeep.threads.item_records import PREVIEW_CHARS
from threadkeep.threads.reader import load_metadata
from threadkeep.threads.writer import make_arrival, update_metadata
from threadkeep.tokens import estimate_item
from threadkeep.transfer.imported_checkpoint import NO_SUMMARY, ImportedCheckpoint, Placed, make_message, select_messages
from threadkeep.transfer.record_matcher import Make, Origin, RecordMatcher, RecordPlace
from threadkeep.transfer.steps import Compacted, GoTo, Lane, Note, PutItem, Step, Summarised, TakeBack, Titled, Trouble

# How many turns are held; older ones are written out as a block of this many.
BLOCK_TURNS: Final = 1_024
_FORM: Final = struct.Struct(f">{CHAIN_BYTES}s8q")
# How a number that is not there is written.
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path ends. `tokens` counts all of it; `hidden` what its checkpoints took out of the window.

    `turn_before` is the number, in `TurnPlaces`, of where the newest turn began.
    """

    next: int
    chain: bytes
    depth: int
    turn: int
    tokens: int = 0
    hidden: int = 0
    checkpoint: int | None = None
    turns: int = 0
    turn_before: int | None = None


class TurnPlaces:
    """Where turns began, each linked to the one before it on its path.

    A rollback may reach back over every turn of a rollout of any length, so all of them are kept, but only the newest in
    memory: the rest lies in a file without a name, which is gone with this object.
    """

    def __init__(self) -> None:
        self._newest = bytearray()
        self._written_blocks = 0
        self._file: IO[bytes] | None = None
        self._read: tuple[int, bytes] = (_NONE, b"")

    async def add(self, place: Place) -> int:
        """Keep where a turn began; returns its number."""
        number = self._written_blocks * BLOCK_TURNS + len(self._newest) // _FORM.size
        self._newest += _pack(place)
        if len(self._newest) == BLOCK_TURNS * _FORM.size:
            await asyncio.to_thread(self._write_out)
        return number

    async def back(self, number: int | None, *, turns: int) -> Place | None:
        """Return where the turn `turns` before the one of that number began, the first where there are fewer."""
        return None if number is None else await asyncio.to_thread(self._back, number, turns)

    def _back(self, number: int, turns: int) -> Place:
        place = self._at(number)
        for _ in range(turns):
            if place.turn_before is None:
                break
            place = self._at(place.turn_before)
        return place

    def _at(self, number: int) -> Place:
        block, at = divmod(number, BLOCK_TURNS)
        return _unpack(self._block(block)[at * _FORM.size : (at + 1) * _FORM.size])

    def _block(self, number: int) -> bytes | bytearray:
        if number == self._written_blocks:
            return self._newest
        if self._read[0] != number and self._file is not None:
            self._file.seek(number * BLOCK_TURNS * _FORM.size)
            self._read = (number, self._file.read(BLOCK_TURNS * _FORM.size))
        return self._read[1]

    def _write_out(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as this object does
            weakref.finalize(self, self._file.close)
        self._file.seek(self._written_blocks * BLOCK_TURNS * _FORM.size)
        self._file.write(self._newest)
        self._newest = bytearray()
        self._written_blocks += 1


def _pack(place: Place) -> bytes:
    numbers = (place.next, place.depth, place.turn, place.tokens, place.hidden, place.turns)
    links = (_NONE if each is None else each for each in (place.checkpoint, place.turn_before))
    return _FORM.pack(place.chain, *numbers, *links)


def _unpack(packed: bytes | bytearray) -> Place:
    chain, following, depth, turn, tokens, hidden, turns, checkpoint, turn_before = _FORM.unpack(packed)
    return Place(
        next=following,
        chain=chain,
        depth=depth,
        turn=turn,
        tokens=tokens,
        hidden=hidden,
        checkpoint=None if checkpoint == _NONE else checkpoint,
        turns=turns,
        turn_before=None if turn_before == _NONE else turn_before,
    )


# How many items are remembered to recognise them in a compaction; what is older is repeated there and not pointed at.
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
    """The newest items of one lane, found again by their bytes, and by a person's words in whatever form these come back."""

    def __init__(self, *, dialect: Dialect, redact: Callable[[bytes], bytes] | None) -> None:
        self._dialect = dialect
        self._redact = redact
        self._by_bytes: OrderedDict[bytes, RecordedItem] = OrderedDict()
        self._by_words: OrderedDict[bytes, RecordedItem] = OrderedDict()

    def remember(self, item: Item, view: View, recorded: RecordedItem) -> None:
        """Note which record an item has; of equal items the newest counts."""
        _remember(self._by_bytes, digest_body(item.raw), recorded)
        if view.by_person:
            _remember(self._by_words, _digest_words(view), recorded)

    def place(self, item: Item, *, issuer: str) -> Placed:
        """Return an item of a compacted history: the record it repeats where there is one, else its own bytes.

        A person's words that a compaction wrapped anew keep the record they were said in as their source.
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
    """A named step: where the path stood before and after it, and its record where it is an item."""

    before: Place
    after: Place
    item: RecordedItem | None


class ThreadBuilder:
    """Takes the steps of one lane."""

    def __init__(self, backend: Backend, lane: Lane, *, origin: Origin | None = None, after: ThreadBuilder | None = None) -> None:
        """Name the lane, and where it does not begin by itself, the landing it goes on from and the place that has reached."""
        self.items = 0
        self.dialect: Dialect = find_dialect(lane.dialect)
        self._backend = backend
        self._lane = lane
        key = backend.store.tenant.key
        start = Place(next=1, chain=seed_chain(key, dialect=lane.dialect, agent=lane.agent), depth=0, turn=0)
        self._turns: TurnPlaces = after._turns if after else TurnPlaces()
        self._place: Place = replace(after._place, next=origin.at + 1) if after and origin else start
        self._beginning = self._place
        self._context: Place | None = None
        self._nodes: dict[str, Node] = {}
        self._at: str | None = None
        self._title: str | None = None
        self._landed = RecentItems(dialect=self.dialect, redact=backend.redact)
        self._track = RecordMatcher(
            backend,
            lane.thread_id,
            dialect=self.dialect,
            agent=lane.agent,
            origin=origin,
            source=lane.copied_from,
            on_own=self._open,
        )

    @property
    def thread_id(self) -> str:
        return self._track.thread_id

    @property
    def begun(self) -> bool:
        return self._track.begun

    def taken_added(self) -> int:
        """Return how many records were new since this was last asked."""
        added, self._track.added = self._track.added, 0
        return added

    async def is_alone(self) -> bool:
        """Whether nobody else wrote to the thread since the last step."""
        return await self._track.is_alone()

    async def take(self, step: Step) -> str | None:
        """Lay one step down; returns what could not be done as it says, if anything."""
        match step:
            case PutItem():
                await self._add_item(step)
            case Note():
                await self._add_note(step)
            case TakeBack():
                return await self._take_back(step)
            case GoTo():
                return await self._go_to(step)
            case Compacted():
                return await self._add_compaction(step)
            case Summarised():
                await self._add_summary(step)
            case Titled():
                self._title = step.title
            case Trouble():
                return step.text
            case Lane():
                raise AssertionError("a landing has one lane")
        return None

    async def finish(self) -> None:
        """Write what is pending, and the title. More steps may follow."""
        if not self._track.begun and self._lane.opening:
            await self._track.find_position()
        await self._track.flush()
        if self._title and self._track.begun:
            known = await load_metadata(self._backend.store, self.thread_id)
            if known.title is None:
                await update_metadata(self._backend, self.thread_id, title=self._title)
                await self._track.look_again()

    async def origin(self) -> Origin:
        """Return the place reached so far as one that another thread may begin at."""
        put = await self._track.find_position()
        return Origin(put.thread_id, put.ordinal)

    async def _open(self) -> None:
        """The thread is this source's own from here on: what only it says comes first."""
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
        await self._mark_turn(view, before=before, opens=opens, first=put.ordinal if begun is None else begun.ordinal)
        recorded = RecordedItem(put.thread_id, put.ordinal, depth, arrived.tokens)
        self._landed.remember(step.item, view, recorded)
        self._name(step.key, before, recorded)

    async def _add_turn(self, view: View, *, at_ms: int | None) -> RecordPlace | None:
        turn = self._place.turn + 1
        preview = " ".join(view.said.split())[:PREVIEW_CHARS]
        body = encode_body(TurnBody(preview=preview))
        put = await self._put(lambda _: self._record(RecordKind.TURN, body, at_ms=at_ms, turn=turn))
        self._place = replace(self._place, turn=turn)
        return put

    async def _mark_turn(self, view: View, *, before: Place, opens: bool, first: int) -> None:
        """Note where a turn begins: with what the host said right before it, unless it is the first."""
        if opens:
            start = self._context if self._context is not None and before.turns else replace(before, next=first)
            self._place = replace(self._place, turns=before.turns + 1, turn_before=await self._turns.add(start))
        if view.context is not None and not view.by_person:
            self._context = self._context or replace(before, next=first)
        else:
            self._context = None

    async def _take_back(self, step: TakeBack) -> str | None:
        target = await self._turns.back(self._place.turn_before, turns=step.turns - 1)
        if target is None:
            return f"a rollback of {step.turns} turns, but there is no turn before it"
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
        layout = [placed for each in step.layout if (placed := self._place_position(each, issuer=step.issuer)) is not None]
        await self._add_checkpoint(layout, cut=found.before if found else None, at_ms=step.at_ms)
        return trouble

    async def _add_summary(self, step: Summarised) -> None:
        reached = await self._track.find_position()
        said = await select_messages(self._backend.store, reached.thread_id, dialect=self.dialect, stop=reached.ordinal)
        summary = self._redact(self.dialect.parse(make_message(step.text or NO_SUMMARY)).raw)
        last = LiteralEntry(item=msgspec.Raw(summary), issuer=step.issuer)
        await self._add_checkpoint([*said, Placed(last, estimate_item(summary))], cut=None, at_ms=step.at_ms)

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
        """Return a position of a compacted history; None where it names what is not in this file."""
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
