"""Items become records: turn numbers, chain links, token estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from threadkeep.items import Item, ItemKind, View, link_chain
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads.records import TurnBody, encode_body

PREVIEW_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """The end of a thread's path: the next ordinal, the current turn, and the last link of its chain."""

    next: int
    turn: int
    depth: int
    chain: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An item about to be recorded.

    `aside` marks a command to the gateway or its answer: recorded and chained, but never shown to a model. What is `resent` was
    said before and opens no turn.
    """

    item: Item
    view: View
    canonical: bytes
    tokens: int
    aside: bool = False
    resent: bool = False
    redacted: bool = False


def make_records(
    tip: Tip,
    arrivals: Sequence[Arrival],
    *,
    key: bytes,
    at_ms: int,
    model: str | None = None,
    issuer: str | None = None,
) -> tuple[list[NewRecord], Tip]:
    """Return the records for `arrivals` and the tip after them.

    A person's message opens a turn; host context right before it belongs to that turn.
    """
    openers = dict(_find_turn_openers(arrivals))
    records: list[NewRecord] = []
    for index, arrival in enumerate(arrivals):
        opener = openers.get(index)
        if opener is not None:
            tip = replace(tip, turn=tip.turn + 1)
            records.append(_make_turn_record(tip, opener, at_ms=at_ms, model=model, issuer=issuer))
        tip = replace(tip, depth=tip.depth + 1, chain=link_chain(key, tip.chain, arrival.canonical))
        records.append(
            NewRecord(
                kind=RecordKind.NOTE if arrival.aside else RecordKind.ITEM,
                at_ms=at_ms,
                turn=tip.turn,
                tokens=arrival.tokens,
                body=arrival.item.raw,
                chain=tip.chain,
                depth=tip.depth,
                redacted=arrival.redacted,
            )
        )
    return records, replace(tip, next=tip.next + len(records))


def _find_turn_openers(arrivals: Sequence[Arrival]) -> Iterable[tuple[int, Arrival]]:
    """Yield the index where each turn starts and the person's message that opens it."""
    start: int | None = None
    for index, arrival in enumerate(arrivals):
        # A person's words inside a tool output belong to the turn of the call.
        if arrival.view.by_person and arrival.view.kind is ItemKind.MESSAGE and not arrival.aside:
            if not arrival.resent:
                yield index if start is None else start, arrival
            start = None
        elif arrival.view.context is not None:
            start = index if start is None else start
        else:
            start = None


def _make_turn_record(tip: Tip, opener: Arrival, *, at_ms: int, model: str | None, issuer: str | None) -> NewRecord:
    preview = " ".join(opener.view.said.split())[:PREVIEW_CHARS]
    body = encode_body(TurnBody(preview=preview, model=model, issuer=issuer))
    return NewRecord(kind=RecordKind.TURN, at_ms=at_ms, turn=tip.turn, tokens=0, body=body)
