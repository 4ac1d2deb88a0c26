"""The recall tool: added to a client's own tools, run by the gateway, and hidden from the client.

The client gets one answer, made of as many of the provider's as it took, and echoes that one. What was called and returned is
recorded beside the history. In later requests the provider's own answers stand in place of the echo, so that the prefix only
grows. An answer that the client echoes differently, or that a compaction has laid out anew, is sent as the client has it; what
was recalled in it is then gone, and can be recalled again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

import msgspec

from threadkeep.client.thread import Thread
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Reply, Request
from threadkeep.dialects.hidden_tool import HiddenTool
from threadkeep.dialects.values import ToolDefinition
from threadkeep.errors import InvalidPointer, ThreadkeepError
from threadkeep.gateway.conversation.background_writes import Recorded
from threadkeep.gateway.conversation.hints import Hints
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache
from threadkeep.gateway.conversation.window import WindowItem
from threadkeep.items import Item, Role
from threadkeep.recall.tool import ARGUMENT, DESCRIPTION, NOTHING, PARAMETERS, render_recall
from threadkeep.store import NewRecord, RecordKind, Span
from threadkeep.threads import Pointer, parse_pointer
from threadkeep.threads.reader import load_live_path
from threadkeep.tokens import estimate_item

NAME: Final = "threadkeep_recall"
TOOL: Final = ToolDefinition(name=NAME, description=DESCRIPTION, parameters=PARAMETERS)
SEAL_BYTES = 16
# How `render_recall` heads what it quotes.
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

    def seal_with(self, key: bytes) -> ExchangeBody:
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


class RecallExchanges:
    """The exchanges of one tenant's conversations in one dialect."""

    def __init__(self, backend: Backend, dialect: Dialect, threads: ThreadCache) -> None:
        self._backend = backend
        self._dialect = dialect
        self._threads = threads

    async def load(self, known: KnownThread | None) -> tuple[Exchange, ...]:
        """Return what was recalled since the newest checkpoint of a thread, as it stood when it was looked at."""
        if known is None:
            return ()
        store = self._backend.store
        path = await load_live_path(store, known.thread_id, stop=known.tip.next)
        found = [await store.read(span, kinds={RecordKind.NOTE}) for span in reversed(path.spans)]
        exchanges = [each for records in found for record in records if (each := self._read(record.body)) is not None]
        erased = await self._find_erased({pointer for exchange in exchanges for pointer in exchange.quotes})
        return tuple(exchange for exchange in exchanges if not erased.intersection(exchange.quotes))

    async def _find_erased(self, pointers: set[Pointer]) -> set[Pointer]:
        """Return which of these records are erased: what quotes one of them is never sent again."""
        found: set[Pointer] = set()
        for thread_id in {pointer.thread_id for pointer in pointers}:
            ordinals = {pointer.ordinal for pointer in pointers if pointer.thread_id == thread_id}
            span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
            records = await self._backend.store.read(span, ordinals=ordinals, bodies=False)
            found.update(Pointer(thread_id, record.ordinal) for record in records if record.erased)
        return found

    async def record(self, known: KnownThread, exchange: Exchange) -> None:
        """Record an exchange. Durable when it returns."""
        body = ExchangeBody(
            depth=exchange.depth,
            said=exchange.said,
            items=[msgspec.Raw(item.raw) for item in exchange.items],
            pending=[msgspec.Raw(item.raw) for item in exchange.pending],
        ).seal_with(self._backend.store.tenant.key)
        record = NewRecord(
            kind=RecordKind.NOTE,
            at_ms=self._backend.clock.now_ms(),
            turn=known.tip.turn,
            tokens=0,
            body=msgspec.json.encode(body),
        )
        reached = await self._backend.append_beside(known.thread_id, record, expected=known.tip.next)
        self._threads.extend(known.thread_id, reached=reached)

    def _read(self, body: bytes) -> Exchange | None:
        if b'"recalled"' not in body:
            return None
        try:
            found = _decoder.decode(body)
        except msgspec.MsgspecError:
            return None
        if not compare_digest(found.seal, found.seal_with(self._backend.store.tenant.key).seal):
            return None
        return Exchange(
            depth=found.depth,
            said=found.said,
            items=tuple(Item(bytes(raw)) for raw in found.items),
            pending=tuple(Item(bytes(raw)) for raw in found.pending),
        )


def restore_exchanges(
    window: Sequence[WindowItem], exchanges: Sequence[Exchange], history: History, *, dialect: Dialect
) -> list[WindowItem]:
    """Return a window with what was recalled where it was."""
    form = HiddenTool(definition=TOOL, dialect=dialect)
    for exchange in exchanges:
        window = _restore(list(window), exchange, history, dialect=dialect, form=form)
    return list(window)


def _restore(
    window: list[WindowItem], exchange: Exchange, history: History, *, dialect: Dialect, form: HiddenTool
) -> list[WindowItem]:
    echo = _find_echo(exchange.depth, history, dialect=dialect)
    places = {placed.depth: at for at, placed in enumerate(window) if placed.depth is not None and not placed.from_checkpoint}
    begins = places.get(exchange.depth + 1)
    whole = begins is not None and all(exchange.depth + 1 + step in places for step in range(len(echo)))
    if begins is None or not whole or not echo or form.render_echo(echo) != exchange.said:
        return _drop_orphans(window, exchange, echo, form=form)
    ends = begins + len(echo)
    ours = [_place(item, exchange.depth + 1, dialect=dialect) for item in exchange.items]
    after = window[ends:]
    if exchange.pending:
        if not after:
            return window
        changed = form.join_outputs(after[0].item, exchange.pending)
        if changed is None:
            ours.extend(_place(item, exchange.depth + 1, dialect=dialect) for item in exchange.pending)
        else:
            held = after[0]
            after[0] = WindowItem(item=changed, tokens=estimate_item(changed.raw), depth=held.depth, sealed=held.sealed)
    return [*window[:begins], *ours, *after]


def _find_echo(depth: int, history: History, *, dialect: Dialect) -> list[Item]:
    """Return the client's items from a place on that are one answer of the model's."""
    found: list[Item] = []
    for item, info in zip(history.items[depth:], history.infos[depth:], strict=True):
        if info.by_person or info.is_output or dialect.view(item).role is not Role.ASSISTANT:
            break
        found.append(item)
    return found


def _drop_orphans(window: list[WindowItem], exchange: Exchange, echo: Sequence[Item], *, form: HiddenTool) -> list[WindowItem]:
    """Return a window without reasoning that led to a call which is not there: a provider refuses it without what followed."""
    reasoning = {form.identify_reasoning(item) for item in exchange.items} - {None}
    if not reasoning or not echo:
        return window
    return [placed for placed in window if form.identify_reasoning(placed.item) not in reasoning]


def _place(item: Item, depth: int, *, dialect: Dialect) -> WindowItem:
    return WindowItem(item=item, tokens=estimate_item(item.raw), depth=depth, sealed=dialect.has_sealed(item))


# How often a model may look something up before it must answer with what it has.
ROUNDS: Final = 3
UNREADABLE: Final = "Say what to look for in `query`."
ENOUGH: Final = "Nothing more can be recalled in this turn; answer with what you have."


@dataclass(slots=True, kw_only=True)
class RecallSession:
    """What one request's answers came to. Made for it, gone with it.

    `body` is what was sent first, `depth` how many links of the client's chain it holds.
    """

    backend: Backend
    dialect: Dialect
    exchanges: RecallExchanges
    recorded: Recorded
    body: bytes = field(repr=False)
    depth: int
    _items: list[Item] = field(default_factory=list, repr=False)
    _shown: list[Item] = field(default_factory=list, repr=False)
    _rounds: int = 0
    _body: bytes = field(default=b"", repr=False)

    @property
    def tool(self) -> HiddenTool:
        return HiddenTool(definition=TOOL, dialect=self.dialect)

    async def handle_reply(self, reply: Reply) -> bytes | None:
        """Take one answer of the provider; return what it is to be asked next, or None where the answer is the client's.

        What a client sees nothing of is durable when None is returned.
        """
        found = self.tool.find_calls(reply.items)
        outputs = self.tool.make_outputs({call_id: await self._run_call(arguments) for call_id, arguments in found.calls})
        if not outputs or found.has_others or reply.outcome != "completed" or self._rounds > ROUNDS:
            await self._record(reply, pending=tuple(outputs))
            return None
        self._rounds += 1
        self._items.extend((*reply.items, *outputs))
        self._shown.extend(reply.items)
        self._body = self._extend(self._body or self.body, (*reply.items, *outputs))
        return self._body

    def _extend(self, body: bytes, items: Sequence[Item]) -> bytes:
        request = self.dialect.split(body)
        if request is None:
            raise AssertionError("what the gateway wrote itself can be read")
        return self.dialect.join(request, [*request.items, *items])

    async def _record(self, reply: Reply, *, pending: tuple[Item, ...]) -> None:
        """Record what the client sees nothing of, if there is anything."""
        if not self._items and not pending:
            return
        said = self.tool.render_echo([*self._shown, *reply.items])
        exchange = Exchange(depth=self.depth, said=said, items=(*self._items, *reply.items), pending=pending)
        await self.exchanges.record(await self.recorded(), exchange)

    async def _run_call(self, arguments: object) -> str:
        if self._rounds >= ROUNDS:
            return ENOUGH
        query = arguments.get(ARGUMENT) if isinstance(arguments, dict) else None
        if not isinstance(query, str) or not query.strip():
            return UNREADABLE
        try:
            thread = Thread(self.backend, (await self.recorded()).thread_id, dialect=self.dialect)
            return await render_recall(thread, query) if await self._is_within(thread, query) else NOTHING
        except ThreadkeepError as error:
            return f"Nothing can be recalled now ({error.code})."

    async def _is_within(self, thread: Thread, query: str) -> bool:
        """Whether a question stays in its own conversation: a pointer may name any thread of the tenant's."""
        try:
            pointer = parse_pointer(query, within=thread.id)
        except InvalidPointer:
            return True
        path = await load_live_path(self.backend.store, thread.id, whole=True)
        # Within a fork a pointer without a name means the record on the path, whichever thread wrote it.
        return path.find_thread(pointer.ordinal) is not None and pointer.thread_id in (
            thread.id,
            path.find_thread(pointer.ordinal),
        )


def keep_first_counts(shown: Reply, first: Reply) -> Reply:
    """Return what the client was shown, with what was counted for the request that the gateway estimated."""
    return replace(shown, input_tokens=first.input_tokens, cached_tokens=first.cached_tokens)


def can_offer_recall(request: Request, history: History, hints: Hints, *, dialect: Dialect, rules: Rules) -> bool:
    """Whether a conversation's model is given the tool.

    Not where its answers cannot be blended, or a tool of the client's own has the name. Where a provider binds thinking, only
    with `drop_block`: a client that changes what it echoes would otherwise have its next request refused.
    """
    if not rules.can_recall(client=hints.client, model=hints.model):
        return False
    thinking = dialect.api.thinking
    has_thinking = thinking is not None and (thinking.is_requested(request) or any(info.is_sealed for info in history.infos))
    if has_thinking and rules.thinking != "drop_block":
        return False
    return hints.answer_form != "list" and HiddenTool(definition=TOOL, dialect=dialect).can_join(request)
