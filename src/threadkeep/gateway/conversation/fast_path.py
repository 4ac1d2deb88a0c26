"""Long histories that nobody knows: which of them may go out before they are read.

To read a long history for the first time takes longer than to send it. How it begins tells whether anybody knows it, and a look
at its bytes whether anything in it could concern the gateway; where neither is so, its provider is asked first.
"""

from __future__ import annotations

import re
from typing import Final

from threadkeep.dialects import Request
from threadkeep.gateway.conversation.commands import SIGNATURE
from threadkeep.gateway.conversation.compaction import Compactor
from threadkeep.gateway.conversation.hints import Hints
from threadkeep.gateway.conversation.item_cache import History, ItemCache
from threadkeep.gateway.conversation.lookup import ThreadLookup
from threadkeep.gateway.conversation.pending_writes import PendingWrites
from threadkeep.gateway.conversation.request import Incoming
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.gateway.conversation.thread_cache import KnownThread
from threadkeep.tokens import estimate_bytes

# A shorter one is read in no time.
LONG_BYTES: Final = 64 * 1024
# How many items tell whether a history is known. A path holds every link before its last one, so what is not known by then is not
# known later on either; and hosts begin many conversations with the same few items.
BEGINNING: Final = 8
# No picture is counted as more than this, and each names its encoding.
PICTURE_BYTES: Final = 40_000
PICTURE_SIGN: Final = b"base64"
# Whatever a name is made of might be written as an escape. No client does that to these characters; one that did is read first.
_plain_name = re.compile(r"[A-Za-z0-9/_-]+")
_escaped = re.compile(rb"\\u00(?:2[dDfF]|3[0-9]|[4-7][0-9a-fA-F])")


class FastPath:
    """Tells which requests of one dialect may go out before they are read."""

    def __init__(
        self, rules: Rules, *, infos: ItemCache, recordings: PendingWrites, placing: ThreadLookup, keeping_up: Compactor
    ) -> None:
        names = rules.commands
        self._all_plain = all(_plain_name.fullmatch(name) for name in (*names.compact, *names.control))
        self._signs = (SIGNATURE.encode(), *(name.encode() for name in names.compact))
        self._words = [_as_word(name) for name in names.control]
        self._rules = rules
        self._glances = infos
        self._recordings = recordings
        self._placing = placing
        self._keeping_up = keeping_up

    async def find_beginning(self, incoming: Incoming, request: Request, hints: Hints) -> History | None:
        """Return how a history begins that may go out as it came; None where all of it must be read first.

        Nobody else records one that begins alike when this returns: what the caller begins right then is the first.
        """
        if len(incoming.body) < LONG_BYTES or len(request.items) <= BEGINNING + 2 or self._is_added_to(hints):
            return None
        # One more than is looked at here: another may be at this very point with the same beginning.
        if self._glances.has_prefix(request.items, agent=hints.agent, length=BEGINNING + 1) or not self._is_plain(incoming.body):
            return None
        begun = await self._glances.at(request.items[:BEGINNING], agent=hints.agent)
        await self._recordings.wait_for(begun.chain)
        known, depth = await self._placing.find(begun, hints) or (None, 0)
        if depth == BEGINNING or self._recordings.is_pending(begun.chain[0]) or not _is_unburdened(known, hints):
            return None
        size = len(incoming.body)
        tokens = estimate_bytes(size + PICTURE_BYTES * incoming.body.count(PICTURE_SIGN)) + len(request.items)
        return begun if self._keeping_up.is_far_from_limit(known, hints, tokens=tokens, body_bytes=size) else None

    def _is_added_to(self, hints: Hints) -> bool:
        """Whether the provider gets more than what the client says."""
        rules = self._rules
        shown = rules.derives_cache_key or rules.can_show_memory(client=hints.client)
        return shown or rules.can_recall(client=hints.client, model=hints.model)

    def _is_plain(self, body: bytes) -> bool:
        """Whether a request holds nothing that a person and the gateway could have said to each other."""
        if not self._all_plain or any(sign in body for sign in self._signs) or _escaped.search(body) is not None:
            return False
        lower = body.lower() if self._words else body
        return not any(word.search(lower) for word in self._words)


def _as_word(name: str) -> re.Pattern[bytes]:
    """Return a pattern that finds a name as a whole word of any text in a body of JSON in lower case.

    A word that is part of a longer one, or of base64, is none. A line break before it is written as an escape.
    """
    word = re.escape(name.lower())
    before = (rf"(?<=[^a-z0-9+]{word})", rf"(?<=\\[bfnrt]{word})", rf"(?<=\\u[0-9a-f]{{4}}{word})")
    return re.compile(rf"{word}(?![a-z0-9+/_-])(?:{'|'.join(before)})".encode())


def _is_unburdened(known: KnownThread | None, hints: Hints) -> bool:
    """Whether what is known of a history asks for no change of what follows: no checkpoint, nothing erased, no other account."""
    if known is None or known.active is not None or known.erased.depths:
        return known is None
    if known.context is None:
        return True
    context = known.context
    kept_apart = context.issued_from or context.bound_from or context.checkpoint is not None or context.memory
    return not kept_apart and context.issuer in ("", hints.issuer)
