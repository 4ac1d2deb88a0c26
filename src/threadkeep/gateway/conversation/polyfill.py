"""Answers what a client asks of its provider beside its turns, where the provider lacks it: counts, compactions, conversations.

A compaction made here is a checkpoint of the thread like any other, with its audit. The client gets an item that names it, and
keeps that item in place of its history; in its next request the item is read as the history that it stands for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Reply
from threadkeep.dialects.values import CHECKPOINT_PREFIX
from threadkeep.errors import CompactionError, CompactionStopped, Conflict
from threadkeep.gateway.conversation.compaction import Compactor
from threadkeep.gateway.conversation.lookup import ThreadLookup
from threadkeep.gateway.conversation.open_request import OpenRequest
from threadkeep.gateway.conversation.provider_request import RequestBuilder
from threadkeep.gateway.conversation.proxy_interface import Incoming, Substitute
from threadkeep.gateway.conversation.thread_cache import KnownThread
from threadkeep.threads.backend import new_thread_id

log = logging.getLogger("threadkeep.gateway")

# Given a request and the body that it has without what it asks beside its history, returns it recorded.
RecordHistory = Callable[[bytes, Incoming], Awaitable[tuple[OpenRequest, KnownThread]]]
# Records a reply, so that a later request finds it by its id.
RecordReply = Callable[[OpenRequest, KnownThread, Reply], Awaitable[None]]


class Polyfill:
    """Substitutes for one dialect's side requests, in one tenant's store."""

    def __init__(
        self,
        backend: Backend,
        dialect: Dialect,
        *,
        builder: RequestBuilder,
        lookup: ThreadLookup,
        compactor: Compactor,
        record_history: RecordHistory,
        record_reply: RecordReply,
    ) -> None:
        self._backend = backend
        self._dialect = dialect
        self._builder = builder
        self._lookup = lookup
        self._compactor = compactor
        self._record_history = record_history
        self._record_reply = record_reply

    def find(self, opened: OpenRequest, known: KnownThread | None) -> Substitute | None:
        """Return what stands in for the provider's answer to a side request; None where nothing does."""
        api, path = self._dialect.api, opened.incoming.path
        if api.is_count(path):
            return Substitute(render=lambda: self._count(opened, known))
        service = api.compaction_service
        # What was redacted could not be found again as it was.
        history = service.find_asked(opened.request, path=path) if service is not None and self._backend.redact is None else None
        if history is None or service is None:
            return None
        return Substitute(render=lambda: self._compact(opened, history), has_begun=service.has_begun)

    def find_new_conversation(self, incoming: Incoming) -> Substitute | None:
        """Return what stands in for a provider that is to make a conversation; None where a request asks for something else."""
        continuation = self._dialect.api.continuation
        first = continuation.find_first_items(incoming.body, path=incoming.path) if continuation is not None else None
        # What is redacted could not be given back as it was.
        if continuation is None or first is None or self._backend.redact is not None:
            return None

        async def create() -> bytes:
            now = self._backend.clock.now_ms()
            name = f"conv_{new_thread_id(now)}"
            request = self._dialect.split(first)
            if request is not None and (request.head or request.items):
                opened, known = await self._record_history(first, replace(incoming, conversation=name))
                await self._record_reply(opened, known, Reply(outcome="completed", input_tokens=0))
            return continuation.render_conversation(incoming.body, name=name, created_at=now // 1000)

        return Substitute(render=create)

    async def _count(self, opened: OpenRequest, known: KnownThread | None) -> bytes:
        tokens = self._builder.estimate_tokens(known, opened)
        usage = known.usage if known is not None else None
        return self._dialect.api.render_count(tokens if usage is None else usage.apply(tokens))

    async def _compact(self, opened: OpenRequest, history: bytes) -> bytes:
        """Compact a history and return the answer that names the checkpoint; without a checkpoint it names the whole history."""
        service = self._dialect.api.compaction_service
        assert service is not None
        asked, known = await self._record_history(history, opened.incoming)
        try:
            await self._compactor.compact_on_command(known, asked, focus=None)
        except CompactionStopped:
            raise
        except (CompactionError, Conflict) as error:
            log.info("a client's own compaction left its thread as it was: %s", error.code)
        known = await self._lookup.reload(known, asked.hints)
        name = f"{CHECKPOINT_PREFIX}{known.thread_id}.{known.tip.next}"
        await self._record_reply(asked, known, Reply(response_id=name, outcome="completed", input_tokens=0))
        now = self._backend.clock.now_ms() // 1000
        return service.render_answer(opened.request, path=opened.incoming.path, name=name, created_at=now)
