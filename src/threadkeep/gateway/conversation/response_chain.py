"""Rebuilds the history behind a request that names the answer it goes on from.

The id of an answer is stored with its record as a keyed digest, which the store finds as it finds the links of a history, in any
process and after a restart. What came before that answer is read from the records. Everything behind this module therefore sees a
client that resends its whole history.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Reply
from threadkeep.dialects.raw_json import split_object
from threadkeep.gateway.conversation.request import Incoming, Refused
from threadkeep.items import CHAIN_BYTES, Item
from threadkeep.store import Found, Record, RecordKind, Span
from threadkeep.threads import ReplyBody
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.reader import CHAINED, load_context_body, load_live_path, read_body

# What ends an answer that can be gone on from.
WHOLE: Final = frozenset({"completed", "incomplete"})


def link_response(key: bytes, response_id: str) -> bytes:
    """Return the digest under which an answer's record is found by the answer's id; no history has it for a link."""
    return blake2b(response_id.encode("utf-8", "surrogatepass"), key=key, digest_size=CHAIN_BYTES, person=b"response-id").digest()


class ResponseChain:
    """Histories by the id of their last answer; one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect) -> None:
        self._backend = backend
        self._continuation = dialect.api.continuation

    def link(self, reply: Reply) -> bytes | None:
        """Return the digest under which a reply is to be found by its id; None where no request can go on from it."""
        # What was redacted is not what the provider is to be sent.
        if self._backend.redact is not None or not reply.response_id or reply.outcome not in WHOLE:
            return None
        return link_response(self._backend.store.tenant.key, reply.response_id)

    def read_previous(self, body: bytes) -> str | None:
        """Return the id of the answer that a request goes on from; None where it names none."""
        return self._continuation.read_previous(body) if self._continuation is not None else None

    async def restore(self, body: bytes) -> bytes | None:
        """Return a request with its whole history; None where it names no answer that was recorded here.

        So is one of whose history something was redacted or erased.
        """
        response_id = self.read_previous(body)
        if response_id is None or self._continuation is None:
            return None
        for found in await self._backend.store.lookup([link_response(self._backend.store.tenant.key, response_id)]):
            loaded = await self._load_history(found)
            if loaded is not None:
                return self._continuation.join_history(body, *loaded)
        return None

    def is_abridged(self, body: bytes) -> bool:
        """Whether a checkpoint may stand in for a part of a history that is sent whole."""
        return self._continuation is not None and self._continuation.is_abridged(body)

    def refuse_unknown(self, incoming: Incoming) -> Refused | None:
        """Return why a request cannot go on: it names an answer that only its connection could have kept, and is not recorded."""
        response_id = self.read_previous(incoming.body) if incoming.is_resumable else None
        if response_id is None or self._continuation is None or self._continuation.is_stored(split_object(incoming.body) or {}):
            return None
        message = f"Previous response with id '{response_id}' not found."
        return Refused(status=400, code="previous_response_not_found", message=message)

    async def _load_history(self, found: Found) -> tuple[list[Item], list[Item]] | None:
        """Return what stood in front of a history when an answer was given, and the history, the answer included."""
        store = self._backend.store
        place = Span(thread_id=found.thread_id, start=found.ordinal, stop=found.ordinal + 1)
        answered = [body for record in await store.read(place) if (body := read_body(record, ReplyBody)) is not None]
        path = await load_live_path(store, found.thread_id, stop=found.ordinal, whole=True)
        links: list[Record] = []
        for span in reversed(path.spans):
            for record in await store.read(span, kinds=CHAINED | {RecordKind.META}):
                if is_rewrite_mark(record):
                    links = []
                elif record.depth is not None and record.depth <= found.depth:
                    links.append(record)
        is_whole = len(links) == found.depth and not any(record.erased or record.redacted for record in links)
        if not answered or not is_whole:
            return None
        context = await load_context_body(store, found.thread_id, stop=found.ordinal)
        head = context.head if context is not None else []
        said = [Item(bytes(raw)) for raw in answered[0].items]
        return [Item(bytes(raw)) for raw in head], [*(Item(record.body) for record in links), *said]
