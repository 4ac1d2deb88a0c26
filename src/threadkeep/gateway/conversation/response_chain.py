"""Rebuilds the history behind a request that names the answer, or the conversation, it goes on from.

The id of an answer is stored with its record as a keyed digest, which the store finds as it finds the links of a history, in any
process and after a restart; answers in a conversation are stored under the conversation's id. What came before an answer is read
from the records. Everything behind this module therefore sees a client that resends its whole history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Reply
from threadkeep.dialects.raw_json import split_object
from threadkeep.gateway.conversation.proxy_interface import Incoming, Refused
from threadkeep.items import CHAIN_BYTES, Item
from threadkeep.store import Found, Record, RecordKind, Span
from threadkeep.threads import ReplyBody
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.reader import CHAINED, load_context_body, load_live_path, read_body

# What ends an answer that can be gone on from.
WHOLE: Final = frozenset({"completed", "incomplete"})


# What a server answers that has no such path.
ABSENT: Final = frozenset({404, 405, 501})
# The most pages of a provider's conversation that are read.
PAGES: Final = 100


def link_response(key: bytes, response_id: str, *, person: bytes = b"response-id") -> bytes:
    """Return the digest under which an answer's record is found by the answer's id; no history has it for a link."""
    return blake2b(response_id.encode("utf-8", "surrogatepass"), key=key, digest_size=CHAIN_BYTES, person=person).digest()


def link_conversation(key: bytes, conversation: str) -> bytes:
    """Return the digest under which the records of a conversation's answers are found."""
    return link_response(key, conversation, person=b"conversation-id")


class ResponseChain:
    """Histories by the id of their last answer; one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect) -> None:
        self._backend = backend
        self._continuation = dialect.api.continuation

    def link(self, reply: Reply, *, conversation: str = "") -> bytes | None:
        """Return the digest under which a reply is to be found by its id or its conversation's; None where none can name it."""
        # What was redacted is not what the provider is to be sent.
        if self._backend.redact is not None or reply.outcome not in WHOLE:
            return None
        if conversation:
            return link_conversation(self._backend.store.tenant.key, conversation)
        return link_response(self._backend.store.tenant.key, reply.response_id) if reply.response_id else None

    def read_previous(self, body: bytes) -> str | None:
        """Return the id of the answer that a request goes on from; None where it names none."""
        return self._continuation.read_previous(body) if self._continuation is not None else None

    async def restore(self, incoming: Incoming) -> Incoming | None:
        """Return a request with its whole history; None where it names no answer that was recorded here.

        So is one of whose history something was redacted or erased. A conversation that is new here begins with what its provider
        holds of it: nothing, where the provider keeps no conversations.
        """
        continuation, body, key = self._continuation, incoming.body, self._backend.store.tenant.key
        if continuation is None:
            return None
        conversation, response_id = continuation.read_conversation(body), self.read_previous(body)
        if conversation is not None and self._backend.redact is None:
            found = await self._backend.store.lookup([link_conversation(key, conversation)])
            before = await self._load_first(sorted(found, key=lambda match: match.depth, reverse=True))
            if not found and (held := await self._read_held(conversation, incoming)) is not None:
                before = [], held
        elif conversation is None and response_id is not None:
            before = await self._load_first(await self._backend.store.lookup([link_response(key, response_id)]))
        else:
            return None
        whole = continuation.join_history(body, *before) if before is not None else None
        if whole is None:
            return None
        return replace(incoming, body=whole, is_resumable=True, conversation=conversation or "")

    async def _load_first(self, found: Sequence[Found]) -> tuple[list[Item], list[Item]] | None:
        for match in found:
            if (loaded := await self._load_history(match)) is not None:
                return loaded
        return None

    async def _read_held(self, conversation: str, incoming: Incoming) -> list[Item] | None:
        """Return what the provider holds of a conversation; None where it does not say, or knows no such conversation."""
        continuation, read_path = self._continuation, incoming.read_path
        if continuation is None or read_path is None:
            return None
        held: list[Item] = []
        after = None
        for _ in range(PAGES):
            try:
                answer = await read_path(continuation.make_items_path(conversation, after=after))
            except ConnectionError:
                return None
            if answer.status in ABSENT:
                # A provider that knows conversations names the one it does not have; any other may repeat the path.
                is_known_api = conversation.encode() in answer.body and b"/conversations/" not in answer.body
                return None if is_known_api else held
            page = continuation.read_items_page(answer.body) if answer.status == 200 else None
            if page is None:
                return None
            held += page[0]
            after = page[1]
            if after is None:
                return held
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
