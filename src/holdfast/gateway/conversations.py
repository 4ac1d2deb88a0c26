"""What becomes of a conversation request: found by content, recorded, answered here or forwarded with its window.

Clients resend their whole history. The chain of digests over their own items finds the thread that holds the longest known part
of it, so restarts, forks and edits come out right with no id from the client. Only what the client sent enters the chain; what
the gateway sends in its place (a checkpoint's layout) never does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holdfast.dialects import Dialect, Reply, Request
from holdfast.errors import CompactionError, Conflict, OrdinalConflict
from holdfast.gateway.codex_metadata import turn_metadata
from holdfast.gateway.commands import CompactCommand, asides, command_in
from holdfast.gateway.exchange import Answered, Forward, Incoming, Refused
from holdfast.gateway.placing import Place, find_place, settle
from holdfast.gateway.rewriting import window_items
from holdfast.items import Item, View
from holdfast.runtime import Holdfast
from holdfast.runtime.backend import Backend
from holdfast.runtime.compacting import compact_thread
from holdfast.runtime.reading import last_usage, live_path, load_checkpoint
from holdfast.runtime.recording import chain_of
from holdfast.runtime.reports import CompactionReport
from holdfast.store import NewRecord, RecordKind
from holdfast.thread import ReplyBody, Tip, encode_body
from holdfast.tokens import estimate_bytes, measure_pressure

log = logging.getLogger("holdfast.gateway")

# Two requests of one conversation can race for its tip; the loser looks again and forks. More losses in a row mean a fault.
TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrived:
    """A request taken apart, its chain, and which of its items were said to the gateway."""

    request: Request
    chain: list[bytes]
    views: list[View]
    aside: list[bool]
    agent: str

    @property
    def command(self) -> CompactCommand | None:
        return command_in(self.views[-1]) if self.views else None


class RecordedConversations:
    """Conversations of one dialect, kept in a store; implements `holdfast.gateway.exchange.Conversations`."""

    def __init__(self, holdfast: Holdfast, dialect: Dialect, *, auto_compact: bool) -> None:
        self._backend: Backend = holdfast.backend
        self._dialect = dialect
        self._auto_compact = auto_compact

    async def open(self, incoming: Incoming) -> Forward | Answered | Refused:
        request = self._dialect.split(incoming.body)
        if request is None or not request.items:
            return Forward(body=incoming.body, finished=_unrecorded)
        metadata = turn_metadata(incoming.headers)
        views = [self._dialect.view(item) for item in request.items]
        arrived = _Arrived(
            request=request,
            chain=chain_of(self._backend, self._dialect, request.items, agent=metadata.agent),
            views=views,
            aside=asides(views),
            agent=metadata.agent,
        )
        if metadata.is_side_request:
            place = await find_place(self._backend, arrived.chain, dialect=self._dialect, agent=arrived.agent)
            body = await self._upstream_body(incoming.body, arrived, place=place)
            return Forward(body=body, finished=_unrecorded)
        thread_id, tip = await self._record(arrived)
        if arrived.command is not None:
            return Answered(text=await self._compact_on_command(thread_id, tip, arrived.command))
        if self._auto_compact:
            await self._compact_when_due(thread_id, tip, arrived)
        place = Place(thread_id=thread_id, stop=None, depth=len(arrived.chain))
        body = await self._upstream_body(incoming.body, arrived, place=place)
        return Forward(body=body, finished=_Recorder(self._backend, thread_id, tip, sent=len(body)))

    async def _record(self, arrived: _Arrived) -> tuple[str, Tip]:
        """Make what is new in a request durable; return the thread that now ends where the request does, and its tip."""
        for _ in range(TRIES - 1):
            try:
                return await self._settle(arrived)
            except OrdinalConflict as lost:
                log.debug("lost a race for thread %s; looking again", lost.thread_id)
        return await self._settle(arrived)

    async def _settle(self, arrived: _Arrived) -> tuple[str, Tip]:
        return await settle(
            self._backend,
            arrived.request,
            arrived.chain,
            dialect=self._dialect,
            aside=arrived.aside,
            agent=arrived.agent,
        )

    async def _upstream_body(self, body: bytes, arrived: _Arrived, *, place: Place | None) -> bytes:
        """Return what the provider is sent: the client's own bytes, unless a checkpoint or an aside stands in them."""
        items = await window_items(self._backend, arrived.request.items, aside=arrived.aside, place=place)
        return body if items is None else self._dialect.join(arrived.request, self._dialect.arrange(items))

    async def _compact_on_command(self, thread_id: str, tip: Tip, command: CompactCommand) -> str:
        try:
            report = await compact_thread(self._backend, thread_id, dialect=self._dialect, seed=tip.chain, focus=command.focus)
        except (CompactionError, Conflict) as error:
            return f"Not compacted: {error}"
        return _told(report)

    async def _compact_when_due(self, thread_id: str, tip: Tip, arrived: _Arrived) -> None:
        """Compact before the request goes out if it would pass the hard limit; the request is answered either way."""
        place = Place(thread_id=thread_id, stop=None, depth=len(arrived.chain))
        items = await window_items(self._backend, arrived.request.items, aside=arrived.aside, place=place)
        size = _size(arrived.request, items if items is not None else arrived.request.items)
        path = await live_path(self._backend.store, thread_id)
        checkpoint = await load_checkpoint(self._backend.store, path.checkpoint) if path.checkpoint else None
        usage = await last_usage(self._backend.store, path, checkpoint)
        pressure = measure_pressure(limits=self._backend.limits, estimated=estimate_bytes(size), calibration=usage)
        if not pressure.must_compact:
            return
        try:
            report = await compact_thread(self._backend, thread_id, dialect=self._dialect, seed=tip.chain)
        except (CompactionError, Conflict) as error:
            log.warning("a compaction of thread %s was due and did not happen: %s", thread_id, error.code)
        else:
            log.info("compacted thread %s: %d to %d tokens", thread_id, report.tokens_before, report.tokens_after)


class _Recorder:
    """Writes down what the provider answered, beside the history, before the client has all of it."""

    def __init__(self, backend: Backend, thread_id: str, tip: Tip, *, sent: int) -> None:
        self._backend = backend
        self._thread_id = thread_id
        self._tip = tip
        self._sent = sent

    async def __call__(self, reply: Reply) -> None:
        if not reply.items and reply.input_tokens is None:
            return
        redact = self._backend.redact
        body = ReplyBody(
            items=[msgspec.Raw(redact(item.raw) if redact else item.raw) for item in reply.items],
            outcome=reply.outcome,
            estimated_tokens=estimate_bytes(self._sent),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cached_tokens=reply.cached_tokens,
            response_id=reply.response_id,
        )
        record = NewRecord(
            kind=RecordKind.REPLY,
            at_ms=self._backend.clock.now_ms(),
            turn=self._tip.turn,
            tokens=reply.output_tokens or 0,
            body=encode_body(body),
        )
        expected = self._tip.next
        while True:
            try:
                await self._backend.append(self._thread_id, [record], expected=expected)
            except OrdinalConflict as moved:
                expected = moved.actual
            else:
                return


async def _unrecorded(reply: Reply) -> None:
    """Take the reply to a request that is no part of a conversation's history."""


def _size(request: Request, items: Sequence[Item]) -> int:
    beside = sum(len(raw) for name, raw in request.fields.items() if name not in ("input", "messages"))
    return beside + sum(len(item.raw) for item in (*request.head, *items))


def _told(report: CompactionReport) -> str:
    """Return a compaction's report as the person who asked for it reads it."""
    saved = 100 - report.tokens_after * 100 // max(1, report.tokens_before)
    counts = report.audit.counts()
    repaired = f"{counts['repaired']} of them were put back word for word" if counts["repaired"] else "all of them did"
    return (
        f"Compacted: {report.tokens_before:,} → {report.tokens_after:,} tokens ({saved} % smaller), "
        f"{report.model_calls} model calls.\n"
        f"{counts['required']} things had to survive; {repaired}.\n"
        f"Nothing is lost: `holdfast recall {report.thread} WORDS` finds originals, "
        f"`holdfast undo {report.thread}` takes this compaction back."
    )
