"""Splits requests into items, and each part that is sent again only once.

A client resends its history, and most write the same bytes again. If a body begins like an earlier one, up to the end of an item,
it is split from there on, and what is known about its items goes with it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadkeep.dialects import Dialect, Request
from threadkeep.dialects.raw_json import split_object
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.items import Item

# A shorter body is taken apart faster than it is looked for.
SHORTEST_BYTES = 2 * 1024
# Above this a thread takes the body apart: a megabyte of short items takes tens of milliseconds.
LONG_BYTES = 128 * 1024
# Where nearly all of a body is known, it is still copied a few times.
COPIED_BYTES = 4 * 1024 * 1024
# Bodies that begin alike are compared one after the other; those of one client share their instructions, and differ soon after.
OPENING_BYTES = 1024
ALIKE = 32
# What is remembered, all conversations together.
LIMIT_BYTES = 32 * 1024 * 1024

SPACE = b" \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """How a body began: `sent` reaches to the end of an item of its history, whose list was opened at `opened`.

    `histories` are this history, or a beginning of it, by the agent that it was read for.
    """

    sent: bytes
    opened: int
    head: tuple[Item, ...]
    items: tuple[Item, ...]
    histories: dict[str, History]

    def remember(self, history: History, *, agent: str) -> None:
        """Keep what is known about the items, for the request that goes on from here."""
        self.histories[agent] = replace(history, parsed={})


class ParseCache:
    """Takes requests of one dialect apart; the prefixes it remembers are forgotten oldest first."""

    def __init__(self, dialect: Dialect, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._dialect = dialect
        self._limit = limit_bytes
        self._bytes = 0
        self._alike: dict[bytes, list[Prefix]] = {}

    @property
    def remembered_bytes(self) -> int:
        return self._bytes

    async def split(self, body: bytes) -> tuple[Request | None, Prefix | None]:
        """Return what `dialect.split` returns, and how the body is remembered, if it is long enough for that.

        A long body is taken apart in a thread, so that other requests go on.
        """
        if len(body) < SHORTEST_BYTES:
            return self._dialect.split(body), None
        known = self._find_longest(body)
        unknown_bytes = len(body) - (len(known.sent) if known else 0)
        if unknown_bytes < LONG_BYTES and len(body) < COPIED_BYTES:
            request, prefix = self._split(body, known)
        else:
            request, prefix = await asyncio.to_thread(self._split, body, known)
        if prefix is not None:
            self._keep(prefix, instead_of=known)
        return request, prefix

    def _split(self, body: bytes, known: Prefix | None) -> tuple[Request | None, Prefix | None]:
        """Return the parts of a body, and how it can be recognised again. Changes nothing here: it may run in a thread."""
        request = self._split_rest(body, known) if known else None
        histories = dict(known.histories) if known and request else {}
        if request is None:
            request = self._dialect.split(body)
        return request, self._make_prefix(body, request, histories) if request else None

    def _find_longest(self, body: bytes) -> Prefix | None:
        alike = self._alike.get(body[:OPENING_BYTES], ())
        begun = [prefix for prefix in alike if body.startswith(prefix.sent)]
        return max(begun, key=lambda prefix: len(prefix.sent), default=None)

    def _split_rest(self, body: bytes, known: Prefix) -> Request | None:
        """Take apart a body that goes on from a known one; None where that leaves any doubt."""
        rest = body[len(known.sent) :].lstrip(SPACE)
        if not rest.startswith((b",", b"]")):
            return None
        shorter = body[: known.opened] + rest.removeprefix(b",")
        later = self._dialect.split(shorter)
        history = later.fields[self._dialect.history_field] if later else b""
        # The history must be the list that was opened there, and the only one of its name: of two fields the last one counts.
        if later is None or not shorter.startswith(history, known.opened - 1):
            return None
        after = shorter[known.opened - 1 + len(history) :]
        behind = split_object(b"{" + after.lstrip(SPACE).removeprefix(b","))
        if behind is None or self._dialect.history_field in behind:
            return None
        whole = body[known.opened - 1 : len(body) - len(after)]
        return Request(
            fields={**later.fields, self._dialect.history_field: whole},
            head=known.head,
            items=(*known.items, *later.head, *later.items),
        )

    def _make_prefix(self, body: bytes, request: Request, histories: dict[str, History]) -> Prefix | None:
        """Return how far a body can be recognised again; None where its history is empty, or cannot be pointed at."""
        history = request.fields.get(self._dialect.history_field, b"")
        opened = _find_history_start(body, history, name=self._dialect.history_field.encode())
        if opened is None or not request.items:
            return None
        end = opened + len(history) - len("[]")
        while body[end - 1 : end] in SPACE:
            end -= 1
        return Prefix(sent=body[:end], opened=opened, head=request.head, items=request.items, histories=histories)

    def _keep(self, prefix: Prefix, *, instead_of: Prefix | None) -> None:
        opening = prefix.sent[:OPENING_BYTES]
        alike = self._alike.pop(opening, [])
        kept = [each for each in alike if each is not instead_of][1 - ALIKE :]
        self._alike[opening] = [*kept, prefix]
        self._bytes += _count_bytes(self._alike[opening]) - _count_bytes(alike)
        while self._bytes > self._limit and self._alike:
            self._bytes -= _count_bytes(self._alike.pop(next(iter(self._alike))))


def _find_history_start(body: bytes, history: bytes, *, name: bytes) -> int | None:
    """Return where in a body the list that is its history begins, behind the bracket."""
    if not history.startswith(b"["):
        return None
    for named in re.finditer(rb'"%s"[ \t\r\n]*:[ \t\r\n]*' % name, body):
        if body.startswith(history, named.end()):
            return named.end() + 1
    return None


def _count_bytes(prefixes: Sequence[Prefix]) -> int:
    return sum(len(prefix.sent) for prefix in prefixes)
