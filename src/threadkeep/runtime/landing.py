"""From the steps of a foreign transcript to the records of a thread: items on the chain, turns, rollbacks, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from threadkeep.dialects import Dialect, dialect_named
from threadkeep.dialects.spans import fields_of
from threadkeep.items import Item, ItemKind, View, chain_link, chain_seed
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.describing import describe, description
from threadkeep.runtime.imported_checkpoint import ImportedCheckpoint
from threadkeep.runtime.landed_items import LandedItems, Recorded
from threadkeep.runtime.places import Place, TurnPlaces
from threadkeep.runtime.recording import arrival
from threadkeep.runtime.said import Placed, newest_said
from threadkeep.runtime.tracking import Make, Origin, Put, Track
from threadkeep.store import NewRecord, RecordKind
from threadkeep.thread import LiteralEntry, Pointer, RollbackBody, TurnBody, encode_body
from threadkeep.thread.turns import PREVIEW_CHARS
from threadkeep.tokens import estimate_item
from threadkeep.transfer.codex_selection import NO_SUMMARY, message
from threadkeep.transfer.steps import Compacted, GoTo, Lane, Note, PutItem, Step, Summarised, TakeBack, Titled, Trouble


class Node(NamedTuple):
    """A named step: where the path stood before and after it, and its record where it is an item."""

    before: Place
    after: Place
    item: Recorded | None


class Landing:
    """Takes the steps of one lane."""

    def __init__(self, backend: Backend, lane: Lane, *, origin: Origin | None = None, after: Landing | None = None) -> None:
        """Name the lane, and where it does not begin by itself, the landing it goes on from and the place that has reached."""
        self.items = 0
        self.dialect: Dialect = dialect_named(lane.dialect)
        self._backend = backend
        self._lane = lane
        key = backend.store.tenant.key
        start = Place(next=1, chain=chain_seed(key, dialect=lane.dialect, agent=lane.agent), depth=0, turn=0)
        self._turns: TurnPlaces = after._turns if after else TurnPlaces()
        self._place: Place = replace(after._place, next=origin.at + 1) if after and origin else start
        self._beginning = self._place
        self._context: Place | None = None
        self._nodes: dict[str, Node] = {}
        self._at: str | None = None
        self._title: str | None = None
        self._landed = LandedItems(dialect=self.dialect, redact=backend.redact)
        self._track = Track(
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
                await self._item(step)
            case Note():
                await self._note(step)
            case TakeBack():
                return await self._take_back(step)
            case GoTo():
                return await self._go_to(step)
            case Compacted():
                return await self._compacted(step)
            case Summarised():
                await self._summarised(step)
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
            await self._track.position()
        await self._track.flush()
        if self._title and self._track.begun:
            known = await description(self._backend.store, self.thread_id)
            if known.title is None:
                await describe(self._backend, self.thread_id, title=self._title)
                await self._track.look_again()

    async def origin(self) -> Origin:
        """Return the place reached so far as one that another thread may begin at."""
        put = await self._track.position()
        return Origin(put.thread_id, put.ordinal)

    async def _open(self) -> None:
        """The thread is this source's own from here on: what only it says comes first."""
        for note in self._lane.opening:
            await self._note(note)

    async def _put(self, make: Make) -> Put | None:
        put = await self._track.put(make)
        if put is not None:
            self._place = replace(self._place, next=put.ordinal + 1)
        return put

    def _record(self, kind: RecordKind, body: bytes, *, at_ms: int | None, turn: int, target: int | None = None) -> NewRecord:
        moment = self._backend.clock.now_ms() if at_ms is None else at_ms
        return NewRecord(kind=kind, at_ms=moment, turn=turn, tokens=0, body=body, target=target)

    async def _note(self, step: Note) -> None:
        before = self._place
        body = self._redacted(step.body) if fields_of(step.body) is not None else step.body
        await self._put(lambda _: self._record(RecordKind.NOTE, body, at_ms=step.at_ms, turn=self._place.turn))
        self._name(step.key, before, None)

    async def _item(self, step: PutItem) -> None:
        arrived = arrival(self.dialect, step.item, redact=self._backend.redact)
        view = arrived.view
        before = self._place
        spoken = view.by_person and view.kind is ItemKind.MESSAGE
        begun = await self._turn(view, at_ms=step.at_ms) if spoken else None
        opens = spoken if step.opens_turn is None else step.opens_turn
        link = chain_link(self._backend.store.tenant.key, self._place.chain, arrived.canonical)
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
        recorded = Recorded(put.thread_id, put.ordinal, depth, arrived.tokens)
        self._landed.remember(step.item, view, recorded)
        self._name(step.key, before, recorded)

    async def _turn(self, view: View, *, at_ms: int | None) -> Put | None:
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

    async def _compacted(self, step: Compacted) -> str | None:
        found = self._nodes.get(step.cut) if step.cut is not None else None
        named = [self._nodes.get(each) for each in step.layout if isinstance(each, str)]
        trouble = None
        if step.cut is not None and found is None:
            trouble = f"a compaction keeps what follows {step.cut[:40]!r}, which is not in this file"
        elif any(node is None or node.item is None for node in named):
            trouble = "a compaction keeps a message that is not in this file"
        layout = [placed for each in step.layout if (placed := self._placed(each, issuer=step.issuer)) is not None]
        await self._checkpoint(layout, cut=found.before if found else None, at_ms=step.at_ms)
        return trouble

    async def _summarised(self, step: Summarised) -> None:
        reached = await self._track.position()
        said = await newest_said(self._backend.store, reached.thread_id, dialect=self.dialect, stop=reached.ordinal)
        summary = self._redacted(self.dialect.parse(message(step.text or NO_SUMMARY)).raw)
        last = LiteralEntry(item=msgspec.Raw(summary), issuer=step.issuer)
        await self._checkpoint([*said, Placed(last, estimate_item(summary))], cut=None, at_ms=step.at_ms)

    async def _checkpoint(self, layout: Sequence[Placed], *, cut: Place | None, at_ms: int | None) -> None:
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
            checkpoint = made.at(Pointer(self.thread_id, ordinal), dialect=self.dialect)
            body = encode_body(checkpoint)
            record = self._record(RecordKind.CHECKPOINT, body, at_ms=at_ms, turn=here.turn, target=checkpoint.cut)
            return replace(record, tokens=made.tokens_after)

        put = await self._put(make)
        if put is not None:
            self._place = replace(self._place, hidden=here.tokens - made.tokens_after, checkpoint=put.ordinal)

    def _placed(self, position: Item | str, *, issuer: str) -> Placed | None:
        """Return a position of a compacted history; None where it names what is not in this file."""
        if isinstance(position, Item):
            return self._landed.placed(position, issuer=issuer)
        node = self._nodes.get(position)
        return None if node is None or node.item is None else node.item.kept

    def _redacted(self, raw: bytes) -> bytes:
        return self._backend.redact(raw) if self._backend.redact else raw

    def _name(self, key: str | None, before: Place, item: Recorded | None) -> None:
        if key is not None:
            self._nodes[key] = Node(before, self._place, item)
            self._at = key
