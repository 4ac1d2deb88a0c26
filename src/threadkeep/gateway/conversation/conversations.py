"""Decides what becomes of a conversation request: answered here, or forwarded with its window.

Clients resend their whole history. The chain of digests over its items finds the thread that holds the longest known part of it,
so restarts, forks and edits work without an id from the client. Only items the client sent enter the chain; what the gateway
sends in their place (a checkpoint's layout) never does.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from threadkeep.client import Threadkeep
from threadkeep.compaction import load_ledger
from threadkeep.compaction.run import record_client_compaction
from threadkeep.compaction.state_text import render_state
from threadkeep.dialects import Dialect, Reply
from threadkeep.dialects.api import MANAGEMENT
from threadkeep.errors import CompactionError, CompactionStopped, Conflict, InvalidArgument, OrdinalConflict
from threadkeep.gateway.conversation.background_writes import PendingWrites, Recorded, ReplyRecorder, make_finished
from threadkeep.gateway.conversation.command_detection import sign
from threadkeep.gateway.conversation.command_runner import CommandAnswers
from threadkeep.gateway.conversation.compaction import Compactor, RunningCompactions
from threadkeep.gateway.conversation.forward_first import ForwardFirst
from threadkeep.gateway.conversation.hints import (
    acts_for_its_client,
    asks_for_compaction,
    asks_for_summary,
    is_side_request,
    read_hints,
)
from threadkeep.gateway.conversation.item_cache import ItemCache
from threadkeep.gateway.conversation.lookup import ThreadLookup
from threadkeep.gateway.conversation.model_windows import ModelWindows
from threadkeep.gateway.conversation.open_request import OpenRequest
from threadkeep.gateway.conversation.parse_cache import ParseCache
from threadkeep.gateway.conversation.polyfill import Polyfill
from threadkeep.gateway.conversation.provider_request import ProviderRequest, RequestBuilder
from threadkeep.gateway.conversation.proxy_interface import (
    Answered,
    Forward,
    HostWindow,
    HostWish,
    Incoming,
    Refused,
    Shrink,
    Smaller,
)
from threadkeep.gateway.conversation.recall_tool import RecallExchanges, RecallSession, can_offer_recall
from threadkeep.gateway.conversation.response_chain import WHOLE, ResponseChain
from threadkeep.gateway.conversation.rules import Rules, make_rules
from threadkeep.gateway.conversation.sessions import find_named_thread
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache
from threadkeep.gateway.error_statuses import find_status
from threadkeep.memory.memory import Summary
from threadkeep.threads import Attempt
from threadkeep.threads.records import Persistence

log = logging.getLogger("threadkeep.gateway")

# Two requests of one conversation can race for its tip; the loser looks again and forks. More losses in a row mean a fault.
TRIES = 4

Decision = Forward | Answered | Refused


class RecordedConversations:
    """Conversations of one dialect in one tenant's store; implements `Conversations` and `HostConversations`.

    `auto_compact` turns automatic compaction on where the configuration leaves it off; `rules` replace the configuration.
    `upstream` names the provider that answers: sealed items of one provider are not sent to another.

    What a request brings is durable before `finished` returns. Writes and compactions may be under way when the gateway stops;
    `close` ends them, and must be called before the store is closed.
    """

    def __init__(
        self,
        threadkeep: Threadkeep,
        dialect: Dialect,
        *,
        auto_compact: bool = False,
        rules: Rules | None = None,
        upstream: str = "",
    ) -> None:
        backend = self._backend = threadkeep.backend
        rules = self._rules = make_rules(threadkeep.config, auto_compact=auto_compact) if rules is None else rules
        self._dialect = dialect
        self._memories = threadkeep.memory
        self._upstream = upstream
        self._key = backend.store.tenant.key
        self._parser = ParseCache(dialect)
        self._items = ItemCache(key=self._key, dialect=dialect, names=rules.commands)
        self._threads = ThreadCache()
        self._lookup = ThreadLookup(backend, dialect, self._threads)
        self._builder = RequestBuilder(backend, dialect, self._lookup, rules)
        self._exchanges = RecallExchanges(backend, dialect, self._threads)
        self._chain = ResponseChain(backend, dialect)
        self._writes = PendingWrites()
        # Whether the provider was seen to refuse to manage a history.
        self._lacks_management = False
        self._windows = ModelWindows(backend, path=dialect.api.endpoints.models)
        self.compactions = RunningCompactions(backend, dialect, self._threads)
        self._compactor = Compactor(backend, dialect, self._builder, self._lookup, self.compactions, rules)
        self._commands = CommandAnswers(backend, dialect, self._compactor, self._threads, rules)
        self._polyfill = Polyfill(
            backend,
            dialect,
            builder=self._builder,
            lookup=self._lookup,
            compactor=self._compactor,
            record_history=self._record_history,
            record_reply=self._record_reply,
        )
        self._forward_first = ForwardFirst(rules, self._items, self._writes, self._lookup, self._compactor)

    async def close(self) -> None:
        """Finish pending writes and cancel compactions, which leaves every thread as it was before them."""
        await self._windows.close()
        await self._writes.wait_idle()
        await self.compactions.close()

    async def wait_idle(self) -> None:
        """Return once everything that requests brought is recorded, and every compaction they called for has ended."""
        await self._windows.wait_idle()
        await self._writes.wait_idle()
        await self.compactions.wait_idle()

    async def open(self, incoming: Incoming) -> Decision:
        opened = await self._parse(incoming)
        if opened is None or not opened.request.items:
            substitute = self._polyfill.find_new_conversation(incoming)
            passed = Forward(body=incoming.body, finished=_ignore_reply, substitute=substitute)
            return self._chain.refuse_unknown(incoming) or passed
        stages = (
            self._forward_unread,
            self._read_history,
            self._forward_side_request,
            self._find_thread,
            self._answer_command,
            self._manage_window,
            self._forward_after_recording,
        )
        for stage in stages:
            decision = await stage(opened)
            if decision is not None:
                return decision
        return self._forward_while_recording(opened)

    async def _parse(self, incoming: Incoming) -> OpenRequest | None:
        """Split a request into head and items, and read its hints; None where it holds no history."""
        request, prefix = await self._parser.split(incoming.body)
        is_partial = request is None or self._chain.is_abridged(incoming.body)
        if is_partial and (whole := await self._chain.restore(incoming)) is not None:
            incoming = whole
            request, prefix = await self._parser.split(whole.body)
        if request is None:
            return None
        target = self._dialect.api.read_target(request.fields, path=incoming.path, query=incoming.query)
        hints = read_hints(
            incoming.headers,
            request,
            target,
            dialect=self._dialect,
            upstream=self._upstream,
            key=self._key,
            conversation=incoming.conversation,
        )
        is_compacted = self._compactor.find_mode(hints) != "off"
        if is_compacted:
            self._windows.request_window(hints.model, incoming.read_path)
        return OpenRequest(incoming=incoming, request=request, hints=hints, prefix=prefix, is_compacted=is_compacted)

    async def _forward_unread(self, opened: OpenRequest) -> Forward | None:
        """Forward a long history that no thread holds, and read it while the provider answers."""
        beginning = await self._forward_first.find_beginning(opened)
        if beginning is None:
            return None
        if is_side_request(opened.request, path=opened.incoming.path, hints=opened.hints, dialect=self._dialect):
            return None

        async def record() -> KnownThread:
            await self._read_items(opened)
            recorder.tokens = ProviderRequest(
                body=opened.incoming.body, tokens=self._builder.estimate_tokens(None, opened)
            ).counted_tokens
            return await self._record(opened)

        chain = beginning.chain
        recorded = self._writes.start(record, first=chain[0], link=chain[-1])
        recorder = self._make_recorder(recorded, opened, tokens=0)
        return Forward(
            body=opened.incoming.body,
            finished=recorder,
            overflowed=self._shrink_on_overflow(opened, recorded, recorder),
            unmanaged=self._drop_management(opened, recorded, recorder),
        )

    async def _read_history(self, opened: OpenRequest) -> None:
        await self._read_items(opened)
        await self._writes.wait_for(opened.history.chain)

    async def _read_items(self, opened: OpenRequest) -> None:
        agent = opened.hints.agent
        opened.history = await self._items.read(opened.request.items, agent=agent, earlier=opened.earlier)
        if opened.prefix is not None:
            opened.prefix.remember(opened.history, agent=agent)

    async def _forward_side_request(self, opened: OpenRequest) -> Forward | None:
        """Forward a request that is no step of a conversation; a checkpoint of the history it shows applies, so that it fits."""
        is_side = is_side_request(opened.request, path=opened.incoming.path, hints=opened.hints, dialect=self._dialect)
        takes_notes = acts_for_its_client(opened.request, self._dialect)
        if not (is_side or takes_notes or asks_for_summary(opened.request, dialect=self._dialect)):
            return None
        found = await self._lookup.find(opened.history, opened)
        # Without the client's headers, words like those of a request for a summary count only behind a known history.
        least = 1 if takes_notes else max(1, len(opened.history.items) - 2)
        if not is_side and (found is None or found[1] < least):
            return None
        finished = self._note_client_compaction(found[0].thread_id if found else None, opened)
        if found is None:
            substitute = self._polyfill.find(opened, None)
            return Forward(body=opened.incoming.body, finished=finished, substitute=substitute)
        opened.memory = await self._find_memory(found[0], client=opened.hints.client)
        request = self._builder.build(found[0], opened)
        substitute = self._polyfill.find(opened, found[0])
        return Forward(body=request.body, finished=finished, headers=request.headers, substitute=substitute)

    def _note_client_compaction(self, thread_id: str | None, opened: OpenRequest) -> Callable[[Reply], Awaitable[None]]:
        """Return what records a client's own compaction and its cost in its thread, if a side request is one.

        A summary that retells the history is placed by the client's name for the conversation.
        """
        hints, began = opened.hints, self._backend.clock.now_ms()
        if not asks_for_compaction(opened.request, path=opened.incoming.path, hints=hints, dialect=self._dialect):
            return _ignore_reply

        async def note(reply: Reply) -> None:
            place = thread_id or await find_named_thread(self._backend, hints, self._dialect)
            if place is None or reply.outcome not in WHOLE:
                return
            made = Attempt(
                strategy="client",
                outcome="taken",
                model=hints.model or None,
                calls=1,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
                cached_tokens=reply.cached_tokens,
                took_ms=self._backend.clock.now_ms() - began,
            )
            await record_client_compaction(self._backend, place, made)

        return note

    async def _find_thread(self, opened: OpenRequest) -> None:
        """Find the thread of the history, and what its model is given besides: memories, the recall tool."""
        opened.found = await self._lookup.find(opened.history, opened)
        opened.memory = await self._find_memory(opened.known, client=opened.hints.client)
        # An exchange must be stored to the byte, or the provider would see another history at the next request.
        keeps_bytes = self._backend.persistence is Persistence.EXTENDED and self._backend.redact is None
        offered = can_offer_recall(opened.request, opened.history, opened.hints, dialect=self._dialect, rules=self._rules)
        if keeps_bytes and offered:
            opened.recalled = await self._exchanges.load(opened.known)

    async def _answer_command(self, opened: OpenRequest) -> Answered | None:
        if opened.history.command is None:
            return None
        text = await self._commands.answer(opened.history.command, await self._record(opened), opened)

        async def finished(reply: Reply) -> None:
            await self._record_answer(opened, reply)

        return Answered(text=sign(text, key=self._key), finished=finished if opened.incoming.is_resumable else None)

    async def _record_answer(self, opened: OpenRequest, reply: Reply) -> None:
        """Record an answer of the gateway's own, for a client that will name it and not send it back."""
        body = self._dialect.join(opened.request, [*opened.request.items, *reply.items])
        echoed, known = await self._record_history(body, opened.incoming)
        await self._record_reply(echoed, known, replace(reply, items=()))

    async def _record_history(self, body: bytes, incoming: Incoming) -> tuple[OpenRequest, KnownThread]:
        """Record another request of a client's than the one it made, and return it opened."""
        other = await self._parse(replace(incoming, body=body, is_resumable=True))
        if other is None:
            raise InvalidArgument("body", "there is no history in this; send a request body, or the list of its items")
        await self._read_history(other)
        return other, await self._record(other)

    async def _record_reply(self, opened: OpenRequest, known: KnownThread, reply: Reply) -> None:
        await self._make_recorder(make_finished(known), opened, tokens=0)(reply)

    def _can_resume(self, opened: OpenRequest) -> bool:
        """Whether the client may go on by naming the answer to this request."""
        continuation = self._dialect.api.continuation
        return continuation is not None and (opened.incoming.is_resumable or continuation.is_stored(opened.request.fields))

    async def _manage_window(self, opened: OpenRequest) -> None:
        """Do what a request asks of its provider, where that has refused it before: keep its history short."""
        api, request = self._dialect.api, opened.request
        if not self._lacks_management or request.fields.get(MANAGEMENT, b"null") == b"null":
            return
        rest = {name: raw for name, raw in request.fields.items() if name != MANAGEMENT}
        opened.request = replace(request, fields=rest)
        opened.incoming = replace(opened.incoming, body=self._dialect.join(opened.request, request.items))
        opened.headers_instead = api.drop_management(opened.headers)
        threshold = api.find_threshold(request)
        if threshold is not None:
            known = await self._compactor.compact_as_asked(await self._record(opened), opened, threshold=threshold)
            opened.found = known, len(opened.history.items)

    def _drop_management(self, opened: OpenRequest, recorded: Recorded, recorder: ReplyRecorder) -> Shrink | None:
        """Return what makes a request that its provider can take, if it refuses to manage the history itself."""
        if opened.request.fields.get(MANAGEMENT, b"null") == b"null":
            return None

        async def drop() -> Smaller | None:
            self._lacks_management = True
            known = await recorded()
            await self._manage_window(opened)
            _, request = await self._builder.build_next(opened.known or known, opened)
            recorder.tokens = request.counted_tokens
            return Smaller(body=request.body, headers={**opened.headers_instead, **request.headers})

        return drop

    async def _forward_after_recording(self, opened: OpenRequest) -> Forward | Refused | None:
        """Record a request before it goes out, where a compaction or another window depends on the records."""
        known, depth = opened.found or (None, 0)
        is_rewritten = any(info.is_summary for info in opened.history.infos[depth:])
        must_wait = is_rewritten or (known is not None and self._builder.must_record_first(known))
        if not must_wait and not self._compactor.is_needed(opened):
            return None
        known = await self._record(opened)
        try:
            known, request = await self._builder.build_next(await self._compactor.compact_if_needed(known, opened), opened)
        except CompactionStopped as stopped:
            log.info("a %s hook ended a turn of thread %s", stopped.event, stopped.thread_id)
            return Refused(status=find_status(stopped), code=stopped.code, message=str(stopped))
        return self._forward(request, opened, recorded=make_finished(known))

    def _forward_while_recording(self, opened: OpenRequest) -> Forward:
        chain = opened.history.chain
        recorded = self._writes.start(lambda: self._record(opened, found=opened.found), first=chain[0], link=chain[-1])
        return self._forward(self._builder.build(opened.known, opened), opened, recorded=recorded)

    def _forward(self, request: ProviderRequest, opened: OpenRequest, *, recorded: Recorded) -> Forward:
        recorder = self._make_recorder(recorded, opened, tokens=request.counted_tokens)
        recall = None
        if opened.recalled is not None:
            recall = RecallSession(
                backend=self._backend,
                dialect=self._dialect,
                exchanges=self._exchanges,
                recorded=recorded,
                body=request.body,
                depth=len(opened.history.items),
            )
        return Forward(
            body=request.body,
            finished=recorder,
            overflowed=self._shrink_on_overflow(opened, recorded, recorder),
            headers={**opened.headers_instead, **request.headers},
            recall=recall,
            unmanaged=self._drop_management(opened, recorded, recorder),
        )

    def _shrink_on_overflow(self, opened: OpenRequest, recorded: Recorded, recorder: ReplyRecorder) -> Shrink | None:
        """Return what makes a request smaller that its provider refused for its size; None where nothing is compacted."""
        if self._compactor.find_mode(opened.hints) == "off":
            return None

        async def shrink() -> Smaller | None:
            smaller = await self._compactor.shrink_after_overflow(await recorded(), opened)
            if smaller is None:
                return None
            recorder.tokens = smaller.counted_tokens
            return Smaller(body=smaller.body, headers=smaller.headers)

        return shrink

    async def _record(self, opened: OpenRequest, *, found: tuple[KnownThread, int] | None = None) -> KnownThread:
        """Make what is new in a request durable; return the thread that now ends where the request does."""
        for left in reversed(range(TRIES)):
            try:
                known = await self._lookup.record(opened, found=found)
            except OrdinalConflict as lost:
                if not left:
                    raise
                log.debug("lost a race for thread %s; looking again", lost.thread_id)
                found = None
            else:
                break
        if opened.incoming.placed is not None:
            opened.incoming.placed(known.thread_id)
        return known

    def _make_recorder(self, recorded: Recorded, opened: OpenRequest, *, tokens: int) -> ReplyRecorder:
        link = partial(self._chain.link, conversation=opened.incoming.conversation)
        return ReplyRecorder(
            self._backend,
            self._threads,
            recorded,
            dialect=self._dialect,
            tokens=tokens,
            window=lambda: self._backend.find_window(opened.hints.model, told=opened.hints.window),
            link=link if self._can_resume(opened) else lambda reply: None,
            on_recorded=self._count_citations,
        )

    async def _find_memory(self, known: KnownThread | None, *, client: str) -> Summary:
        """Return the memories that a conversation's model is shown; `known` is None where a conversation begins.

        A conversation keeps what it was shown with its first request, byte for byte, so that its prefix stays. Only where those
        memories were edited or erased is it shown the newest.
        """
        if not self._rules.can_show_memory(client=client):
            return Summary()
        if known is None:
            return await self._memories.shown()
        pin = known.context.memory if known.context is not None else ""
        if not pin:
            return Summary()
        return await self._memories.shown_again(pin) or await self._memories.shown()

    async def _count_citations(self, reply: Reply) -> None:
        if self._rules.memory != "off":
            await self._memories.cite_in("\n".join(self._dialect.view(item).text for item in reply.items))

    async def lay_out(self, incoming: Incoming, wish: HostWish) -> HostWindow:
        opened = await self._parse(incoming)
        if opened is None or not opened.request.items:
            raise InvalidArgument("body", "there is no history in this; send a request body, or the list of its items")
        await self._read_history(opened)
        known = await self._record(opened)
        report, trouble, answer = None, None, None
        is_full = wish.limit_tokens is not None and self._builder.estimate_tokens(known, opened) >= wish.limit_tokens
        if opened.history.command is not None:
            answer = await self._commands.answer(opened.history.command, known, opened)
            known = await self._lookup.reload(known, opened.hints)
        elif wish.compact or is_full:
            try:
                report = await self._compactor.compact_on_command(known, opened, focus=wish.focus)
            except (CompactionError, Conflict) as error:
                if wish.compact or isinstance(error, CompactionStopped):
                    raise
                trouble = str(error)
            known = await self._lookup.reload(known, opened.hints)
        known, request = await self._builder.build_next(known, opened)
        active = known.active
        ledger = load_ledger(bytes(active.checkpoint.state)) if active else None
        return HostWindow(
            thread_id=known.thread_id,
            checkpoint=active.ordinal if active else None,
            tokens=request.tokens,
            body=request.body,
            state=render_state(ledger, whole=True) if ledger is not None and ledger.entries else None,
            report=report,
            trouble=trouble,
            answer=answer,
        )


async def _ignore_reply(reply: Reply) -> None:
    """Take the reply to a request that is no part of a conversation's history."""
