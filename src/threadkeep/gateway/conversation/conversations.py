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
from threadkeep.gateway.conversation.client_model import ModelLists
from threadkeep.gateway.conversation.command_answers import (
    noted,
    pinned,
    recalled,
    told_compacted,
    told_failed,
    told_help,
    told_status,
    undone,
    unpinned,
)
from threadkeep.gateway.conversation.commands import Command, signed
from threadkeep.gateway.conversation.compaction import KeepingUp, Upkeep
from threadkeep.gateway.conversation.fast_path import Unread
from threadkeep.gateway.conversation.hints import Hints, asks_for_summary, hints_of, is_side_request
from threadkeep.gateway.conversation.item_cache import Glances
from threadkeep.gateway.conversation.lookup import Placing
from threadkeep.gateway.conversation.parse_cache import Splits
from threadkeep.gateway.conversation.pending_writes import Recorded, Recordings, ReplyRecorder, recorded_already
from threadkeep.gateway.conversation.provider_request import Upstream, Upstreams, counted_tokens
from threadkeep.gateway.conversation.recall_tool import Exchanges, Recalling, is_offered
from threadkeep.gateway.conversation.request import Answered, Arrived, Forward, Incoming, LaidOut, Refused, Smaller, Wish
from threadkeep.gateway.conversation.rules import Rules, rules_of
from threadkeep.gateway.conversation.thread_cache import Known, Memory, load_known
from threadkeep.gateway.status import status_of
from threadkeep.memory.memory import Memories, Shown
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
        self._rules = rules_of(threadkeep.config, auto_compact=auto_compact) if rules is None else rules
        self._upstream = upstream
        self._key = self._backend.store.tenant.key
        self._splits = Splits(dialect)
        self._glances = Glances(key=self._key, dialect=dialect, names=self._rules.commands)
        self._memory = Memory()
        self._placing = Placing(self._backend, dialect, self._memory)
        self._upstreams = Upstreams(self._backend, dialect, self._placing, self._rules)
        self._recollections = Recollections(threadkeep.memory, self._rules)
        self._exchanges = Exchanges(self._backend, dialect, self._memory)
        self._recordings = Recordings()
        self._model_lists = ModelLists(self._backend, path=dialect.api.endpoints.models)
        self.upkeep = Upkeep(self._backend, dialect, self._memory)
        self._keeping_up = KeepingUp(
            self._backend,
            dialect,
            placing=self._placing,
            upstreams=self._upstreams,
            upkeep=self.upkeep,
            rules=self._rules,
        )
        self._unread = Unread(
            self._rules, glances=self._glances, recordings=self._recordings, placing=self._placing, keeping_up=self._keeping_up
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
        hints = hints_of(incoming.headers, request, upstream=self._upstream, key=self._key)
        if self._keeping_up.mode(hints) != "off":
            self._model_lists.look_up(hints.model, incoming.list_models)
        unread = await self._forward_unread(incoming, request, hints)
        if unread is not None:
            return unread
        arrived = await self._read(incoming, request, hints)
        seen = arrived.seen
        await self._recordings.caught_up(seen.chain)
        if await self._is_beside(arrived):
            return await self._forward_beside(arrived)
        found = await self._placing.find(seen, hints)
        known = found[0] if found else None
        arrived = await self._with_recall(
            replace(arrived, memory=await self._recollections.for_conversation(known, hints)), known
        )
        if seen.command is not None:
            text = await self._answered(seen.command, await self._record(arrived), arrived)
            return Answered(text=signed(text, key=self._key))
        if self._keeping_up.is_called_for(known, arrived) or (known is not None and self._is_new_window(known)):
            return await self._forward_decided(await self._record(arrived), arrived)
        chain = seen.chain
        recorded = self._recordings.begin(lambda: self._record(arrived, found=found), first=chain[0], link=chain[-1])
        return self._forward(self._upstreams.shown(known, arrived), arrived, recorded=recorded)

    async def laid_out(self, incoming: Incoming, wish: Wish) -> LaidOut:
        """Record a history that is sent by its host alone; see `threadkeep.gateway.control.api`."""
        request = await self._splits.split(incoming.body)
        if request is None or not request.items:
            raise BadInput("there is no history in this")
        hints = hints_of(incoming.headers, request, upstream=self._upstream, key=self._key)
        arrived = await self._read(incoming, request, hints)
        await self._recordings.caught_up(arrived.seen.chain)
        known = await self._record(arrived)
        report, trouble, answer = None, None, None
        due = wish.limit_tokens is not None and self._upstreams.tokens(known, arrived) >= wish.limit_tokens
        if arrived.seen.command is not None:
            answer = await self._answered(arrived.seen.command, known, arrived)
            known = await self._looked_up(known, hints)
        elif wish.compact or due:
            try:
                report = await self._keeping_up.on_command(known, arrived, focus=wish.focus)
            except (CompactionError, Conflict) as error:
                if wish.compact or isinstance(error, CompactionStopped):
                    raise
                trouble = str(error)
            known = await self._looked_up(known, hints)
        known, upstream = await self._upstreams.made(known, arrived)
        checkpoint = known.standing.ordinal if known.standing else None
        carried = await carried_ledger(self._backend, known.thread_id) if known.standing is None else None
        ledger = load_ledger(bytes(known.standing.checkpoint.state)) if known.standing else carried
        return LaidOut(
            thread_id=known.thread_id,
            checkpoint=checkpoint,
            tokens=upstream.tokens,
            body=upstream.body,
            state=render_state(ledger, whole=True) if ledger is not None and ledger.entries else None,
            report=report,
            trouble=trouble,
            answer=answer,
        )

    async def _looked_up(self, known: Known, hints: Hints) -> Known:
        """Return a thread as it stands now that it was changed."""
        known = await load_known(self._backend, known.thread_id, seed=self._placing.seed(hints.agent))
        self._memory.remember(known)
        return known

    async def _read(self, incoming: Incoming, request: Request, hints: Hints) -> Arrived:
        """Look at each item of a history."""
        seen = await self._glances.at(request.items, agent=hints.agent)
        return Arrived(incoming=incoming, request=request, hints=hints, seen=seen)

    async def _forward_unread(self, incoming: Incoming, request: Request, hints: Hints) -> Forward | None:
        """Forward a long history that nobody knows, and read it then; None where it must be read first."""
        begun = await self._unread.beginning(incoming, request, hints)
        if begun is None:
            return None
        if is_side_request(request, path=incoming.path, hints=hints, dialect=self._dialect):
            return Forward(body=incoming.body, finished=_unrecorded)

        async def record() -> Known:
            arrived = await self._read(incoming, request, hints)
            recorder.tokens = counted_tokens(Upstream(body=incoming.body, tokens=self._upstreams.tokens(None, arrived)))
            return await self._record(arrived)

        recorded = self._recordings.begin(record, first=begun.chain[0], link=begun.chain[-1])
        recorder = self._recorder(recorded, tokens=0)

        async def overflowed() -> Smaller | None:
            return await self._smaller(await recorded(), await self._read(incoming, request, hints), recorder)

        may_compact = self._keeping_up.mode(hints) != "off"
        return Forward(body=incoming.body, finished=recorder, overflowed=overflowed if may_compact else None)

    async def _is_beside(self, arrived: Arrived) -> bool:
        """Whether a request is no step of a conversation."""
        request = arrived.request
        if is_side_request(request, path=arrived.incoming.path, hints=arrived.hints, dialect=self._dialect):
            return True
        if not asks_for_summary(request):
            return False
        found = await self._placing.find(arrived.seen, arrived.hints)
        return found is not None and found[1] >= max(1, len(arrived.seen.items) - 2)

    async def _forward_beside(self, arrived: Arrived) -> Forward:
        """Forward a request that is no part of a conversation; a checkpoint of the history it shows applies, so that it fits."""
        found = await self._placing.find(arrived.seen, arrived.hints)
        if found is None:
            return Forward(body=arrived.incoming.body, finished=_unrecorded)
        arrived = replace(arrived, memory=await self._recollections.for_conversation(found[0], arrived.hints))
        upstream = self._upstreams.shown(found[0], arrived)
        return Forward(body=upstream.body, finished=_unrecorded, headers=upstream.headers)

    async def _with_recall(self, arrived: Arrived, known: Known | None) -> Arrived:
        """Return a request with what was recalled for it so far, where its model is given the tool."""
        # What was recalled must be there to the byte when the next request comes, or the provider would see another history.
        keeps = self._backend.persistence is Persistence.EXTENDED and self._backend.redact is None
        offered = is_offered(arrived.request, arrived.seen, arrived.hints, dialect=self._dialect, rules=self._rules)
        if not keeps or not offered:
            return arrived
        return replace(arrived, recalled=await self._exchanges.of(known))

    async def _record(self, arrived: Arrived, *, found: tuple[Known, int] | None = None) -> Known:
        """Make what is new in a request durable; return the thread that now ends where the request does."""
        settle = partial(self._placing.settle, arrived.seen, arrived.request, arrived.hints, memory=arrived.memory.pin)
        for _ in range(TRIES - 1):
            try:
                return _placed(await settle(found=found), arrived)
            except OrdinalConflict as lost:
                log.debug("lost a race for thread %s; looking again", lost.thread_id)
                found = None
        return _placed(await settle(), arrived)

    def _is_new_window(self, known: Known) -> bool:
        """Whether something is to be recorded or run before the window that counts is sent."""
        return self._upstreams.is_new_window(known) or self._upstreams.starts_anew(known)

    async def _forward_decided(self, known: Known, arrived: Arrived) -> Forward | Refused:
        """Forward a request about which something is to be decided from what is recorded of it.

        Where a hook wants the turn to end, the client is told so, and what it sent stays recorded.
        """
        try:
            known, upstream = await self._upstreams.made(await self._keeping_up.before(known, arrived), arrived)
        except CompactionStopped as stopped:
            log.info("a %s hook ended a turn of thread %s", stopped.event, stopped.thread_id)
            return Refused(status=status_of(stopped), code=stopped.code, message=str(stopped))
        return self._forward(upstream, arrived, recorded=recorded_already(known))

    def _forward(self, upstream: Upstream, arrived: Arrived, *, recorded: Recorded) -> Forward:
        recorder = self._recorder(recorded, tokens=counted_tokens(upstream))

        async def overflowed() -> Smaller | None:
            return await self._smaller(await recorded(), arrived, recorder)

        may_compact = self._keeping_up.mode(arrived.hints) != "off"
        return Forward(
            body=upstream.body,
            finished=recorder,
            overflowed=overflowed if may_compact else None,
            headers=upstream.headers,
            recalling=self._recalling(upstream, arrived, recorded=recorded),
        )

    def _recorder(self, recorded: Recorded, *, tokens: int) -> ReplyRecorder:
        cited = partial(self._recollections.cited, dialect=self._dialect)
        return ReplyRecorder(self._backend, self._memory, recorded, tokens=tokens, cited=cited)

    async def _smaller(self, known: Known, arrived: Arrived, recorder: ReplyRecorder) -> Smaller | None:
        """Return what is sent in place of a request that was refused for its size."""
        smaller = await self._keeping_up.after_overflow(known, arrived)
        if smaller is None:
            return None
        recorder.tokens = counted_tokens(smaller)
        return Smaller(body=smaller.body, headers=smaller.headers)

    def _recalling(self, upstream: Upstream, arrived: Arrived, *, recorded: Recorded) -> Recalling | None:
        if arrived.recalled is None:
            return None
        return Recalling(
            backend=self._backend,
            dialect=self._dialect,
            exchanges=self._exchanges,
            recorded=recorded,
            body=upstream.body,
            depth=len(arrived.seen.items),
        )

    async def _answered(self, command: Command, known: Known, arrived: Arrived) -> str:
        """Do what a person asks of the gateway, or say why not: a command is never passed on to the model."""
        try:
            return await self._obey(command, known, arrived)
        except ThreadkeepError as error:
            return told_failed(command, error)

    async def _obey(self, command: Command, known: Known, arrived: Arrived) -> str:
        match command.verb:
            case "compact":
                report = await self._keeping_up.on_command(known, arrived, focus=command.argument)
                return told_compacted(report, names=self._rules.commands)
            case "undo":
                self._memory.forget(known.thread_id)
                return await undone(self._backend, known)
            case "recall":
                return await recalled(self._backend, known, command.argument, dialect=self._dialect)
            case "status":
                pressure = self._keeping_up.pressure(known, arrived)
                mode = self._keeping_up.mode(arrived.hints)
                return told_status(known, pressure, items=len(arrived.seen.items), mode=mode)
            case "pin" | "unpin" | "note":
                self._memory.forget(known.thread_id)
                thread = Thread(self._backend, known.thread_id, dialect=self._dialect)
                remark = {"pin": pinned, "unpin": unpinned, "note": noted}[command.verb]
                return await remark(thread, command.argument, name=self._rules.commands.control[0])
            case "help":
                return told_help(self._rules, misunderstood=command.argument)


def _placed(known: Known, arrived: Arrived) -> Known:
    """Say where a request was recorded, to the run that counts it."""
    if arrived.incoming.placed is not None:
        arrived.incoming.placed(known.thread_id)
    return known


async def _unrecorded(reply: Reply) -> None:
    """Take the reply to a request that is no part of a conversation's history."""


class Recollections:
    """What is remembered, for conversations of one tenant."""

    def __init__(self, memories: Memories, rules: Rules) -> None:
        self._memories = memories
        self._rules = rules

    async def for_conversation(self, known: Known | None, hints: Hints) -> Shown:
        """Return what a conversation's model is shown; None is a conversation that begins."""
        if not self._rules.shows_memory(client=hints.client):
            return Shown()
        if known is None:
            return await self._memories.shown()
        pin = known.told.memory if known.told is not None else ""
        if not pin:
            return Shown()
        return await self._memories.shown_again(pin) or await self._memories.shown()

    async def cited(self, reply: Reply, *, dialect: Dialect) -> None:
        """Count the memories that an answer cites."""
        if self._rules.memory != "off":
            await self._memories.cite_in("\n".join(dialect.view(item).text for item in reply.items))
