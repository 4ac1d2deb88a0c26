"""Reads each item of a history once.

Clients resend everything with every request. Where a request goes on from one that is remembered whole, its items are known with
it (`parse_cache`). What is known about an item is kept longer, under a digest of its bytes and the link before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice

from threadkeep.dialects import Dialect
from threadkeep.gateway.conversation.command_detection import (
    Command,
    CommandNames,
    find_command,
    is_signed,
    keep_host_parts,
    mark_asides,
)
from threadkeep.items import Item, ItemKind, Role, View, link_chain, seed_chain
from threadkeep.tokens import estimate_item

KEY_BYTES = 16
# An item costs a few hundred bytes here; a thousand long conversations fit.
KEPT = 100_000
# How much is read before other requests get the event loop: a few milliseconds' worth.
TURN_BYTES = 64 * 1024
# Reading an item costs as much as this many bytes however short the item is; recognising one costs far less.
ITEM_BYTES = 1024
KNOWN_ITEM_BYTES = 32
# A longer item is read in a thread: reading one item cannot be interrupted.
LONG_ITEM_BYTES = 256 * 1024
# How many parsed items of one history are kept. Each holds a dozen objects, which the garbage collector walks over.
PARSED_ITEMS = 8_192
# Hosts that start again from a summary of their own put it into this section, or let it answer this question.
SUMMARY_SECTION = "client_summary"
SUMMARY_QUESTION = "What did we do so far?"


@dataclass(frozen=True, slots=True)
class ItemInfo:
    """What is known about one item of a history.

    Attributes:
        link: The chain's digest up to and including the item.
        role: Who wrote it.
        by_person: Whether it is a message that a person wrote.
        by_model: Whether the model or one of its tools produced it.
        is_answer: Whether it is a plain message of the assistant's.
        is_own: Whether it is a signed answer of the gateway.
        is_output: Whether it is a tool output.
        is_summary: Whether a client or its provider wrote it in place of a history.
        is_sealed: Whether a provider signed or encrypted something in it.
        is_host: Whether it is a host's message: in the system role, or in the user role without a word of a person.
        command: The command it is, if it is one.
        host_parts: The parts of a command's message that its host wrote for the model.
    """

    link: bytes
    role: Role
    tokens: int
    by_person: bool
    by_model: bool
    is_answer: bool
    is_own: bool
    is_output: bool
    is_summary: bool
    is_sealed: bool
    is_host: bool
    command: Command | None
    host_parts: Item | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedItem:
    """The view and the canonical form of an item that was just read for the first time."""

    view: View
    canonical: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A whole history as it was sent.

    Attributes:
        aside: For each item, whether it is a command or the answer to one.
        parsed: The items read just now, by position; at most `PARSED_ITEMS`.
    """

    items: tuple[Item, ...]
    infos: tuple[ItemInfo, ...]
    aside: tuple[bool, ...]
    parsed: Mapping[int, ParsedItem] = field(default_factory=dict)

    @property
    def chain(self) -> list[bytes]:
        return [info.link for info in self.infos]

    @property
    def command(self) -> Command | None:
        """The command that the history ends with, if it does; host messages may stand behind it."""
        for info in reversed(self.infos):
            if info.command is not None or not info.is_host:
                return info.command
        return None

    @property
    def turn(self) -> tuple[ItemInfo, ...]:
        """The items after the newest message of a person."""
        asked = [index for index, info in enumerate(self.infos) if info.by_person and not self.aside[index]]
        return self.infos[asked[-1] + 1 :] if asked else self.infos

    @property
    def in_tool_loop(self) -> bool:
        """Whether the history ends with a tool output, so that the turn goes on; hosts put reminders behind one."""
        return next((info.is_output for info in reversed(self.infos) if not info.is_host), False)


class ItemCache:
    """Reads histories of one tenant and dialect, and remembers their items; the oldest are forgotten first."""

    def __init__(self, *, key: bytes, dialect: Dialect, names: CommandNames, kept: int = KEPT) -> None:
        self._key = key
        self._dialect = dialect
        self._names = names
        self._limit = kept
        self._known: dict[bytes, ItemInfo] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def read(self, items: Sequence[Item], *, agent: str, earlier: History | None = None) -> History:
        """Return a history with what is known about its items, those of `earlier` first, with which it begins.

        A long new history lets other requests run in between.
        """
        infos = list(earlier.infos) if earlier else []
        shared = len(infos)
        link = infos[-1].link if infos else seed_chain(self._key, dialect=self._dialect.name, agent=agent)
        parsed: dict[int, ParsedItem] = {}
        unread = TURN_BYTES
        for index, item in enumerate(islice(items, shared, None), start=shared):
            is_long = len(item.raw) >= LONG_ITEM_BYTES
            place = await asyncio.to_thread(_digest_place, item, link) if is_long else _digest_place(item, link)
            info = self._known.get(place)
            unread -= KNOWN_ITEM_BYTES
            if info is None:
                read = await asyncio.to_thread(self._read, item, link) if is_long else self._read(item, link)
                info = self._known[place] = read[1]
                if len(parsed) < PARSED_ITEMS:
                    parsed[index] = read[0]
                unread -= ITEM_BYTES + len(item.raw)
            infos.append(info)
            link = info.link
            if unread < 0:
                unread = TURN_BYTES
                await asyncio.sleep(0)
        self._forget()
        aside = _find_asides(infos, known=earlier.aside if earlier else ())
        return History(items=tuple(items), infos=tuple(infos), aside=aside, parsed=parsed)

    def _read(self, item: Item, before: bytes) -> tuple[ParsedItem, ItemInfo]:
        parsed_item = ParsedItem(view=self._dialect.view(item), canonical=self._dialect.canonical(item))
        return parsed_item, self._look(item, parsed_item, before=before)

    def _look(self, item: Item, parsed_item: ParsedItem, *, before: bytes) -> ItemInfo:
        view = parsed_item.view
        is_message = view.kind is ItemKind.MESSAGE
        sealed = self._dialect.has_sealed(item)
        command = find_command(view, self._names)
        return ItemInfo(
            link=link_chain(self._key, before, parsed_item.canonical),
            role=view.role,
            tokens=estimate_item(item.raw),
            by_person=is_message and view.by_person,
            by_model=view.role in (Role.ASSISTANT, Role.TOOL),
            is_answer=is_message and view.role is Role.ASSISTANT,
            is_own=is_signed(view, key=self._key),
            is_output=view.kind is ItemKind.OUTPUT,
            is_summary=view.context == SUMMARY_SECTION
            or view.text.strip() == SUMMARY_QUESTION
            or (sealed and (view.kind is ItemKind.OPAQUE or self._dialect.split_compaction(item).written is not None)),
            is_sealed=sealed,
            is_host=_is_host(view) and command is None,
            command=command,
            host_parts=keep_host_parts(item, dialect=self._dialect) if command is not None else None,
        )

    def _forget(self) -> None:
        # The oldest keys are listed first: `next(iter(...))` after each deletion would walk over all earlier deletions again.
        for place in list(islice(self._known, max(0, len(self._known) - self._limit))):
            del self._known[place]


def _digest_place(item: Item, link: bytes) -> bytes:
    """Return the digest under which an item is known behind `link`."""
    return blake2b(item.raw, key=link, digest_size=KEY_BYTES).digest()


def _find_asides(infos: Sequence[ItemInfo], *, known: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return, for each item, whether it is a command or the answer to one; `known` is that of the first items."""
    start = len(known)
    # Whether an answer is an aside depends on the items before it, back to the last that is none of these.
    while start and ((last := infos[start - 1]).is_answer or last.is_host or last.command is not None):
        start -= 1
    later = infos[start:]
    found = mark_asides(
        (info.command is not None for info in later),
        (info.is_answer for info in later),
        (info.is_own for info in later),
        (info.is_host for info in later),
    )
    return (*known[:start], *found)


def _is_host(view: View) -> bool:
    """Whether a host wrote a message: in the system role, or in the user role without a word of a person."""
    is_user_message = view.kind is ItemKind.MESSAGE and view.role is Role.USER
    return (view.role is Role.SYSTEM or is_user_message) and not view.by_person
