"""What becomes of a conversation request: found by content, recorded, answered here or forwarded with its window.

Clients resend their whole history. The chain of digests over their own items finds the thread that holds the longest known part
of it, so restarts, forks and edits come out right with no id from the client. Only what the client sent enters the chain; what
the gateway sends in its place (a checkpoint's layout) never does.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from threadkeep.client import Threadkeep
from threadkeep.client.thread import Thread
from threadkeep.compaction import load_ledger
from threadkeep.compaction.continuation import carried_ledger
from threadkeep.compaction.state_text import render_state
from threadkeep.dialects import Dialect, Reply, Request
from threadkeep.errors import BadInput, CompactionError, CompactionStopped, Conflict, OrdinalConflict, ThreadkeepError
from threadkeep.gateway.conversation.client_model import ModelWindows
from threadkeep.gateway.conversation.command_answers import (
    decode_body,
    note_text,
    pin_text,
    recalled,
    render_compaction,
    render_failure,
    render_help,
    render_status,
    unpin_text,
)
from threadkeep.gateway.conversation.commands import Command, sign
from threadkeep.gateway.conversation.compaction import Compactor, RunningCompactions
from threadkeep.gateway.conversation.fast_path import FastPath
from threadkeep.gateway.conversation.hints import Hints, asks_for_summary, is_side_request, read_hints
from threadkeep.gateway.conversation.item_cache import ItemCache
from threadkeep.gateway.conversation.lookup import ThreadLookup
from threadkeep.gateway.conversation.parse_cache import ParseCache
from threadkeep.gateway.conversation.pending_writes import PendingWrites, Recorded, ReplyRecorder, make_finished
from threadkeep.gateway.conversation.provider_request import RequestBuilder, Upstream, estimate_counted_tokens
from threadkeep.gateway.conversation.recall_tool import RecallExchanges, RecallSession, can_offer_recall
from threadkeep.gateway.conversation.request import (
    Answered,
    Forward,
    HostWindow,
    HostWish,
    Incoming,
    OpenRequest,
    Refused,
    Smaller,
)
from threadkeep.gateway.conversation.rules import Rules, make_rules
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache, load_known
from threadkeep.gateway.status import find_status
from threadkeep.memory.memory import Memories, Summary
from threadkeep.threads.records import Persistence

log = logging.getLogger("threadkeep.gateway")

# Two requests of one conversation can race for its tip; the loser looks again and forks. More losses in a row mean a fault.
TRIES = 4


class RecordedConversations:
    """Conversations of one dialect, kept in a store; implements `threadkeep.gateway.conversation.request.Conversations`.

    `auto_compact` turns automatic compaction on where the configuration leaves it off; `rules` stand in place of the
    configuration. `upstream` names the provider that answers: what one provider sealed is not shown to another.

    What a request brings is durable before `finished` returns. Recordings and compactions may be under way when the gateway
    stops; `close` ends them, and must be called before the store is closed.
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
        self._backend = threadkeep.backend
        self._dialect = dialect
        self._rules = make_rules(threadkeep.config, auto_compact=auto_compact) if rules is None else rules
        self._upstream = upstream
        self._key = self._backend.store.tenant.key
        self._splits = ParseCache(dialect)
        self._glances = ItemCache(key=self._key, dialect=dialect, names=self._rules.commands)
        self._memory = ThreadCache()
        self._placing = ThreadLookup(self._backend, dialect, self._memory)
        self._upstreams = RequestBuilder(self._backend, dialect, self._placing, self._rules)
        self._recollections = SharedMemory(threadkeep.memory, self._rules)
        self._exchanges = RecallExchanges(self._backend, dialect, self._memory)
        self._recordings = PendingWrites()
        self._model_lists = ModelWindows(self._backend, path=dialect.api.endpoints.models)
        self.upkeep = RunningCompactions(self._backend, dialect, self._memory)
        self._keeping_up = Compactor(
            self._backend,
            dialect,
            placing=self._placing,
            upstreams=self._upstreams,
            upkeep=self.upkeep,
            rules=self._rules,
        )
        self._unread = FastPath(
            self._rules, infos=self._glances, recordings=self._recordings, placing=self._placing, keeping_up=self._keeping_up
        )

    async def close(self) -> None:
        """Finish what is being recorded, and break off compactions: every thread is what it was before them."""
        await self._model_lists.close()
        await self._recordings.settled()
        await self.upkeep.close()

    async def settled(self) -> None:
        """Return once everything that requests brought is recorded, and every compaction they called for has ended."""
        await self._model_lists.settled()
        await self._recordings.settled()
        await self.upkeep.settled()

    async def open(self, incoming: Incoming) -> Forward | Answered | Refused:
        request = await self._splits.split(incoming.body)
        if request is None or not request.items:
            return Forward(body=incoming.body, finished=_unrecorded)
        hints = self._read_hints(incoming, request)
        if self._keeping_up.mode(hints) != "off":
            self._model_lists.look_up(hints.model, incoming.list_models)
        unread = await self._forward_unread(incoming, request, hints)
        if unread is not None:
            return unread
        opened = await self._read(incoming, request, hints)
        history = opened.history
        await self._recordings.wait_for(history.chain)
        if await self._is_beside(opened):
            return await self._forward_beside(opened)
        found = await self._placing.find(history, hints)
        known = found[0] if found else None
        opened = await self._with_recall(replace(opened, memory=await self._recollections.for_conversation(known, hints)), known)
        if history.command is not None:
            text = await self._answered(history.command, await self._record(opened), opened)
            return Answered(text=sign(text, key=self._key))
        if self._keeping_up.needs_compaction(known, opened) or (known is not None and self._is_new_window(known)):
            return await self._forward_decided(await self._record(opened), opened)
        chain = history.chain
        recorded = self._recordings.begin(lambda: self._record(opened, found=found), first=chain[0], link=chain[-1])
        return self._forward(self._upstreams.shown(known, opened), opened, recorded=recorded)

    def _read_hints(self, incoming: Incoming, request: Request) -> Hints:
        target = self._dialect.api.read_target(request.fields, path=incoming.path, query=incoming.query)
        return read_hints(incoming.headers, request, target, upstream=self._upstream, key=self._key)

    async def lay_out(self, incoming: Incoming, wish: HostWish) -> HostWindow:
        """Record a history that is sent by its host alone; see `threadkeep.gateway.control.api`."""
        request = await self._splits.split(incoming.body)
        if request is None or not request.items:
            raise BadInput("there is no history in this")
        hints = self._read_hints(incoming, request)
        opened = await self._read(incoming, request, hints)
        await self._recordings.wait_for(opened.history.chain)
        known = await self._record(opened)
        report, trouble, answer = None, None, None
        find_due = wish.limit_tokens is not None and self._upstreams.tokens(known, opened) >= wish.limit_tokens
        if opened.history.command is not None:
            answer = await self._answered(opened.history.command, known, opened)
            known = await self._looked_up(known, hints)
        elif wish.compact or find_due:
            try:
                report = await self._keeping_up.compact_on_command(known, opened, focus=wish.focus)
            except (CompactionError, Conflict) as error:
                if wish.compact or isinstance(error, CompactionStopped):
                    raise
                trouble = str(error)
            known = await self._looked_up(known, hints)
        known, upstream = await self._upstreams.made(known, opened)
        checkpoint = known.active.ordinal if known.active else None
        carried = await carried_ledger(self._backend, known.thread_id) if known.active is None else None
        ledger = load_ledger(bytes(known.active.checkpoint.state)) if known.active else carried
        return HostWindow(
            thread_id=known.thread_id,
            checkpoint=checkpoint,
            tokens=upstream.tokens,
            body=upstream.body,
            state=render_state(ledger, whole=True) if ledger is not None and ledger.entries else None,
            report=report,
            trouble=trouble,
            answer=answer,
        )

    async def _looked_up(self, known: KnownThread, hints: Hints) -> KnownThread:
        """Return a thread as it stands now that it was changed."""
        known = await load_known(self._backend, known.thread_id, seed=self._placing.seed(hints.agent))
        self._memory.remember(known)
        return known

    async def _read(self, incoming: Incoming, request: Request, hints: Hints) -> OpenRequest:
        """Look at each item of a history."""
        history = await self._glances.at(request.items, agent=hints.agent)
        return OpenRequest(incoming=incoming, request=request, hints=hints, history=history)

    async def _forward_unread(self, incoming: Incoming, request: Request, hints: Hints) -> Forward | None:
        """Forward a long history that nobody knows, and read it then; None where it must be read first."""
        begun = await self._unread.find_beginning(incoming, request, hints)
        if begun is None:
            return None
        if is_side_request(request, path=incoming.path, hints=hints, dialect=self._dialect):
            return Forward(body=incoming.body, finished=_unrecorded)

        async def record() -> KnownThread:
            opened = await self._read(incoming, request, hints)
            recorder.tokens = estimate_counted_tokens(Upstream(body=incoming.body, tokens=self._upstreams.tokens(None, opened)))
            return await self._record(opened)

        recorded = self._recordings.begin(record, first=begun.chain[0], link=begun.chain[-1])
        recorder = self._recorder(recorded, tokens=0)

        async def overflowed() -> Smaller | None:
            return await self._smaller(await recorded(), await self._read(incoming, request, hints), recorder)

        may_compact = self._keeping_up.mode(hints) != "off"
        return Forward(body=incoming.body, finished=recorder, overflowed=overflowed if may_compact else None)

    async def _is_beside(self, opened: OpenRequest) -> bool:
        """Whether a request is no step of a conversation."""
        request = opened.request
        if is_side_request(request, path=opened.incoming.path, hints=opened.hints, dialect=self._dialect):
            return True
        if not asks_for_summary(request):
            return False
        found = await self._placing.find(opened.history, opened.hints)
        return found is not None and found[1] >= max(1, len(opened.history.items) - 2)

    async def _forward_beside(self, opened: OpenRequest) -> Forward:
        """Forward a request that is no part of a conversation; a checkpoint of the history it shows applies, so that it fits."""
        found = await self._placing.find(opened.history, opened.hints)
        if found is None:
            return Forward(body=opened.incoming.body, finished=_unrecorded)
        opened = replace(opened, memory=await self._recollections.for_conversation(found[0], opened.hints))
        upstream = self._upstreams.shown(found[0], opened)
        return Forward(body=upstream.body, finished=_unrecorded, headers=upstream.headers)

    async def _with_recall(self, opened: OpenRequest, known: KnownThread | None) -> OpenRequest:
        """Return a request with what was recalled for it so far, where its model is given the tool."""
        # What was recalled must be there to the byte when the next request comes, or the provider would see another history.
        keeps = self._backend.persistence is Persistence.EXTENDED and self._backend.redact is None
        offered = can_offer_recall(opened.request, opened.history, opened.hints, dialect=self._dialect, rules=self._rules)
        if not keeps or not offered:
            return opened
        return replace(opened, recalled=await self._exchanges.of(known))

    async def _record(self, opened: OpenRequest, *, found: tuple[KnownThread, int] | None = None) -> KnownThread:
        """Make what is new in a request durable; return the thread that now ends where the request does."""
        settle = partial(self._placing.settle, opened.history, opened.request, opened.hints, memory=opened.memory.pin)
        for _ in range(TRIES - 1):
            try:
                return _placed(await settle(found=found), opened)
            except OrdinalConflict as lost:
                log.debug("lost a race for thread %s; looking again", lost.thread_id)
                found = None
        return _placed(await settle(), opened)

    def _is_new_window(self, known: KnownThread) -> bool:
        """Whether something is to be recorded or run before the window that counts is sent."""
        return self._upstreams.is_new_window(known) or self._upstreams.must_run_start_hooks(known)

    async def _forward_decided(self, known: KnownThread, opened: OpenRequest) -> Forward | Refused:
        """Forward a request about which something is to be decided from what is recorded of it.

        Where a hook wants the turn to end, the client is told so, and what it sent stays recorded.
        """
        try:
            known, upstream = await self._upstreams.made(await self._keeping_up.before(known, opened), opened)
        except CompactionStopped as stopped:
            log.info("a %s hook ended a turn of thread %s", stopped.event, stopped.thread_id)
            return Refused(status=find_status(stopped), code=stopped.code, message=str(stopped))
        return self._forward(upstream, opened, recorded=make_finished(known))

    def _forward(self, upstream: Upstream, opened: OpenRequest, *, recorded: Recorded) -> Forward:
        recorder = self._recorder(recorded, tokens=estimate_counted_tokens(upstream))

        async def overflowed() -> Smaller | None:
            return await self._smaller(await recorded(), opened, recorder)

        may_compact = self._keeping_up.mode(opened.hints) != "off"
        return Forward(
            body=upstream.body,
            finished=recorder,
            overflowed=overflowed if may_compact else None,
            headers=upstream.headers,
            recalling=self._recalling(upstream, opened, recorded=recorded),
        )

    def _recorder(self, recorded: Recorded, *, tokens: int) -> ReplyRecorder:
        cited = partial(self._recollections.cited, dialect=self._dialect)
        return ReplyRecorder(self._backend, self._memory, recorded, tokens=tokens, cited=cited)

    async def _smaller(self, known: KnownThread, opened: OpenRequest, recorder: ReplyRecorder) -> Smaller | None:
        """Return what is sent in place of a request that was refused for its size."""
        smaller = await self._keeping_up.shrink_after_overflow(known, opened)
        if smaller is None:
            return None
        recorder.tokens = estimate_counted_tokens(smaller)
        return Smaller(body=smaller.body, headers=smaller.headers)

    def _recalling(self, upstream: Upstream, opened: OpenRequest, *, recorded: Recorded) -> RecallSession | None:
        if opened.recalled is None:
            return None
        return RecallSession(
            backend=self._backend,
            dialect=self._dialect,
            exchanges=self._exchanges,
            recorded=recorded,
            body=upstream.body,
            depth=len(opened.history.items),
        )

    async def _answered(self, command: Command, known: KnownThread, opened: OpenRequest) -> str:
        """Do what a person asks of the gateway, or say why not: a command is never passed on to the model."""
        try:
            return await self._obey(command, known, opened)
        except ThreadkeepError as error:
            return render_failure(command, error)

    async def _obey(self, command: Command, known: KnownThread, opened: OpenRequest) -> str:
        match command.verb:
            case "compact":
                report = await self._keeping_up.compact_on_command(known, opened, focus=command.argument)
                return render_compaction(report, names=self._rules.commands)
            case "undo":
                self._memory.forget(known.thread_id)
                return await decode_body(self._backend, known)
            case "recall":
                return await recalled(self._backend, known, command.argument, dialect=self._dialect)
            case "status":
                pressure = self._keeping_up.pressure(known, opened)
                mode = self._keeping_up.mode(opened.hints)
                return render_status(known, pressure, items=len(opened.history.items), mode=mode)
            case "pin" | "unpin" | "note":
                self._memory.forget(known.thread_id)
                thread = Thread(self._backend, known.thread_id, dialect=self._dialect)
                remark = {"pin": pin_text, "unpin": unpin_text, "note": note_text}[command.verb]
                return await remark(thread, command.argument, name=self._rules.commands.control[0])
            case "help":
                return render_help(self._rules, misunderstood=command.argument)


def _placed(known: KnownThread, opened: OpenRequest) -> KnownThread:
    """Say where a request was recorded, to the run that counts it."""
    if opened.incoming.placed is not None:
        opened.incoming.placed(known.thread_id)
    return known


async def _unrecorded(reply: Reply) -> None:
    """Take the reply to a request that is no part of a conversation's history."""


class SharedMemory:
    """What is remembered, for conversations of one tenant."""

    def __init__(self, memories: Memories, rules: Rules) -> None:
        self._memories = memories
        self._rules = rules

    async def for_conversation(self, known: KnownThread | None, hints: Hints) -> Summary:
        """Return what a conversation's model is shown; None is a conversation that begins."""
        if not self._rules.can_show_memory(client=hints.client):
            return Summary()
        if known is None:
            return await self._memories.shown()
        pin = known.context.memory if known.context is not None else ""
        if not pin:
            return Summary()
        return await self._memories.shown_again(pin) or await self._memories.shown()

    async def cited(self, reply: Reply, *, dialect: Dialect) -> None:
        """Count the memories that an answer cites."""
        if self._rules.memory != "off":
            await self._memories.cite_in("\n".join(dialect.view(item).text for item in reply.items))
