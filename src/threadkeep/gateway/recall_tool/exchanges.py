"""What was recalled in a conversation, recorded beside its history and put back where it was.

A client echoes the one answer it was given; upstream stand in its place the provider's own answers with what was called and
returned between them. So what a provider is sent only grows. An answer that the client echoes differently, or that a compaction
has laid out anew, is sent as the client has it: what was recalled in it is then gone, and can be recalled again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect
from threadkeep.dialects.base import HiddenTool, has_sealed
from threadkeep.errors import OrdinalConflict
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.known import Known, Memory
from threadkeep.gateway.recall_tool.form import TOOL
from threadkeep.gateway.rewriting import Placed
from threadkeep.items import Item, Role
from threadkeep.store import NewRecord, RecordKind, Span
from threadkeep.threads import Pointer
from threadkeep.threads.reader import live_path
from threadkeep.tokens import estimate_item

SEAL_BYTES = 16
# How `recalled_text` heads what it quotes.
_pointer = re.compile(rb"\[([A-Za-z0-9._-]{1,128})#(\d{1,15})\]")


class ExchangeBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="note", tag="recalled"):
    """The form in which an exchange is recorded. `seal` is made with the tenant's key: notes come from transcripts too.

    Attributes:
        depth: How many links of the client's chain stood before the answer.
        said: What the client's echo must say.
        items: What stands upstream in place of the echo.
        pending: Outputs of our calls that go with the client's own, behind it.
    """

    depth: int
    said: str
    items: list[msgspec.Raw]
    pending: list[msgspec.Raw]
    seal: str = ""

    def sealed(self, key: bytes) -> ExchangeBody:
        bare = msgspec.json.encode(msgspec.structs.replace(self, seal=""))
        return msgspec.structs.replace(self, seal=blake2b(bare, key=key, digest_size=SEAL_BYTES).hexdigest())


_decoder = msgspec.json.Decoder(ExchangeBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One answer in which something was recalled; see `ExchangeBody`."""

    depth: int
    said: str
    items: tuple[Item, ...]
    pending: tuple[Item, ...] = ()

    @property
    def quotes(self) -> frozenset[Pointer]:
        """The records whose words stand in it, as far as it says so."""
        found = (match for item in (*self.items, *self.pending) for match in _pointer.finditer(item.raw))
        return frozenset(Pointer(match[1].decode(), int(match[2])) for match in found)


class Exchanges:
    """The exchanges of one tenant's conversations in one dialect."""

    def __init__(self, backend: Backend, dialect: Dialect, memory: Memory) -> None:
        self._backend = backend
        self._dialect = dialect
        self._memory = memory

    async def of(self, known: Known | None) -> tuple[Exchange, ...]:
        """Return what was recalled since the newest checkpoint of a thread, as it stood when it was looked at."""
        if known is None:
            return ()
        store = self._backend.store
        path = await live_path(store, known.thread_id, stop=known.tip.next)
        found = [await store.read(span, kinds={RecordKind.NOTE}) for span in reversed(path.spans)]
        exchanges = [each for records in found for record in records if (each := self._read(record.body)) is not None]
        erased = await self._erased({pointer for exchange in exchanges for pointer in exchange.quotes})
        return tuple(exchange for exchange in exchanges if not erased.intersection(exchange.quotes))

    async def _erased(self, pointers: set[Pointer]) -> set[Pointer]:
        """Return which of these records are erased: what quotes one of them is never sent again."""
        found: set[Pointer] = set()
        for thread_id in {pointer.thread_id for pointer in pointers}:
            ordinals = {pointer.ordinal for pointer in pointers if pointer.thread_id == thread_id}
            span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
            records = await self._backend.store.read(span, ordinals=ordinals, bodies=False)
            found.update(Pointer(thread_id, record.ordinal) for record in records if record.erased)
        return found

    async def keep(self, known: Known, exchange: Exchange) -> None:
        """Record an exchange. Durable when it returns."""
        body = ExchangeBody(
            depth=exchange.depth,
            said=exchange.said,
            items=[msgspec.Raw(item.raw) for item in exchange.items],
            pending=[msgspec.Raw(item.raw) for item in exchange.pending],
        ).sealed(self._backend.store.tenant.key)
        record = NewRecord(
            kind=RecordKind.NOTE,
            at_ms=self._backend.clock.now_ms(),
            turn=known.tip.turn,
            tokens=0,
            body=msgspec.json.encode(body),
        )
        expected = known.tip.next
        while True:
            try:
                reached = await self._backend.append(known.thread_id, [record], expected=expected)
            except OrdinalConflict as moved:
                expected = moved.actual
            else:
                break
        self._memory.grown(known.thread_id, expected=expected, reached=reached)

    def _read(self, body: bytes) -> Exchange | None:
        if b'"recalled"' not in body:
            return None
        try:
            found = _decoder.decode(body)
        except msgspec.MsgspecError:
            return None
        if not compare_digest(found.seal, found.sealed(self._backend.store.tenant.key).seal):
            return None
        return Exchange(
            depth=found.depth,
            said=found.said,
            items=tuple(Item(bytes(raw)) for raw in found.items),
            pending=tuple(Item(bytes(raw)) for raw in found.pending),
        )


def put_back(window: Sequence[Placed], exchanges: Sequence[Exchange], seen: Seen, *, dialect: Dialect) -> list[Placed]:
    """Return a window with what was recalled where it was."""
    form = dialect.api.make_hidden_tool(TOOL)
    for exchange in exchanges:
        window = _put_back(list(window), exchange, seen, dialect=dialect, form=form)
    return list(window)


def _put_back(window: list[Placed], exchange: Exchange, seen: Seen, *, dialect: Dialect, form: HiddenTool) -> list[Placed]:
    echo = _echo(exchange.depth, seen, dialect=dialect)
    places = {placed.depth: at for at, placed in enumerate(window) if placed.depth is not None and not placed.laid_out}
    begins = places.get(exchange.depth + 1)
    whole = begins is not None and all(exchange.depth + 1 + step in places for step in range(len(echo)))
    if begins is None or not whole or not echo or form.spoken_text(echo) != exchange.said:
        return _without_orphans(window, exchange, echo, form=form)
    ends = begins + len(echo)
    ours = [_placed(item, exchange.depth + 1, dialect=dialect) for item in exchange.items]
    after = window[ends:]
    if exchange.pending:
        if not after:
            return window
        changed = form.join_outputs(after[0].item, exchange.pending)
        if changed is None:
            ours.extend(_placed(item, exchange.depth + 1, dialect=dialect) for item in exchange.pending)
        else:
            held = after[0]
            after[0] = Placed(item=changed, tokens=estimate_item(changed.raw), depth=held.depth, sealed=held.sealed)
    return [*window[:begins], *ours, *after]


def _echo(depth: int, seen: Seen, *, dialect: Dialect) -> list[Item]:
    """Return the client's items from a place on that are one answer of the model's."""
    found: list[Item] = []
    for item, glance in zip(seen.items[depth:], seen.glances[depth:], strict=True):
        if glance.by_person or glance.is_output or dialect.view(item).role is not Role.ASSISTANT:
            break
        found.append(item)
    return found


def _without_orphans(window: list[Placed], exchange: Exchange, echo: Sequence[Item], *, form: HiddenTool) -> list[Placed]:
    """Return a window without reasoning that led to a call which is not there: a provider refuses it without what followed."""
    reasoning = {form.sealed_reasoning(item) for item in exchange.items} - {None}
    if not reasoning or not echo:
        return window
    return [placed for placed in window if form.sealed_reasoning(placed.item) not in reasoning]


def _placed(item: Item, depth: int, *, dialect: Dialect) -> Placed:
    return Placed(item=item, tokens=estimate_item(item.raw), depth=depth, sealed=has_sealed(item, dialect))
