"""Decides which long histories are sent to their provider first and read meanwhile.

Reading a long history for the first time takes longer than sending it. Its first items show whether a thread may hold it, and
a search of its bytes shows whether it may contain a command. If neither is possible, it is sent before it is read.
"""

from __future__ import annotations

import re
from typing import Final

from threadkeep.gateway.conversation.background_writes import PendingWrites
from threadkeep.gateway.conversation.command_detection import SIGNATURE
from threadkeep.gateway.conversation.compaction import Compactor
from threadkeep.gateway.conversation.hints import Hints
from threadkeep.gateway.conversation.item_cache import History, ItemCache
from threadkeep.gateway.conversation.lookup import ThreadLookup
from threadkeep.gateway.conversation.open_request import OpenRequest
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.gateway.conversation.thread_cache import KnownThread
from threadkeep.tokens import estimate_bytes

# A shorter history is read in no time.
LONG_BYTES: Final = 64 * 1024
# How many items tell whether a history is known. A path holds every link before its last one, so a history unknown up to here is
# unknown later on too; and hosts begin many conversations with the same few items.
BEGINNING: Final = 8
# No picture is counted as more than this, and each names its encoding.
PICTURE_BYTES: Final = 40_000
PICTURE_SIGN: Final = b"base64"
# A name in JSON might be spelled with escapes. No client escapes these characters; a request that does is read first.
_plain_name = re.compile(r"[A-Za-z0-9/_-]+")
_escaped = re.compile(rb"\\u00(?:2[dDfF]|3[0-9]|[4-7][0-9a-fA-F])")


class ForwardFirst:
    """Decides for one dialect which requests may be sent before they are read."""

    def __init__(self, rules: Rules, items: ItemCache, writes: PendingWrites, lookup: ThreadLookup, compactor: Compactor) -> None:
        names = rules.commands
        self._all_plain = all(_plain_name.fullmatch(name) for name in (*names.compact, *names.control))
        self._signs = (SIGNATURE.encode(), *(name.encode() for name in names.compact))
        self._words = [_compile_word(name) for name in names.control]
        self._rules = rules
        self._items = items
        self._writes = writes
        self._lookup = lookup
        self._compactor = compactor

    async def find_beginning(self, opened: OpenRequest) -> History | None:
        """Return the beginning of a history that may go out as it came; None where all of it must be read first.

        When this returns, no other request with the same beginning is being recorded.
        """
        body, items, hints = opened.incoming.body, opened.request.items, opened.hints
        if len(body) < LONG_BYTES or len(items) <= BEGINNING + 2 or self._adds_anything(hints):
            return None
        # One item more than is read here: another request may be at this very point with the same beginning.
        if len(opened.earlier.items if opened.earlier else ()) > BEGINNING or not self._is_plain(body):
            return None
        begun = await self._items.read(items[:BEGINNING], agent=hints.agent)
        if any(info.is_summary for info in begun.infos) or await self._lookup.knows_session(hints):
            # The client may have rewritten the history of a thread.
            return None
        await self._writes.wait_for(begun.chain)
        known, depth = await self._lookup.find(begun, opened) or (None, 0)
        if depth == BEGINNING or self._writes.is_pending(begun.chain[0]) or not _is_unchanged(known, hints):
            return None
        tokens = estimate_bytes(len(body) + PICTURE_BYTES * body.count(PICTURE_SIGN)) + len(items)
        return begun if self._compactor.is_far_from_limit(known, hints, tokens=tokens, body_bytes=len(body)) else None

    def _adds_anything(self, hints: Hints) -> bool:
        """Whether the gateway adds anything to the requests of this client."""
        rules = self._rules
        shown = rules.derives_cache_key or rules.can_show_memory(client=hints.client)
        return shown or rules.can_recall(client=hints.client, model=hints.model)

    def _is_plain(self, body: bytes) -> bool:
        """Whether a request holds no word that could be a command, or an answer to one."""
        if not self._all_plain or any(sign in body for sign in self._signs) or _escaped.search(body) is not None:
            return False
        lower = body.lower() if self._words else body
        return not any(word.search(lower) for word in self._words)


def _compile_word(name: str) -> re.Pattern[bytes]:
    """Return a pattern that finds a name as a whole word of any text in a body of JSON in lower case.

    A word that is part of a longer one, or of base64, is none. A line break before it is written as an escape.
    """
    word = re.escape(name.lower())
    before = (rf"(?<=[^a-z0-9+]{word})", rf"(?<=\\[bfnrt]{word})", rf"(?<=\\u[0-9a-f]{{4}}{word})")
    return re.compile(rf"{word}(?![a-z0-9+/_-])(?:{'|'.join(before)})".encode())


def _is_unchanged(known: KnownThread | None, hints: Hints) -> bool:
    """Whether a thread changes nothing in a request: no checkpoint, nothing erased, no other account."""
    if known is None or known.active is not None or known.erased.depths:
        return known is None
    if known.context is None:
        return True
    context = known.context
    kept_apart = context.issued_from or context.bound_from or context.checkpoint is not None or context.memory
    return not kept_apart and context.issuer in ("", hints.issuer)
