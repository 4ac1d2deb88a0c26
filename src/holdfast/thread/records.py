"""What stands in the body of each kind of record.

An `item` or chained `note` holds an item's exact bytes; every other kind holds one of these, as JSON with a version. A
reader ignores fields it does not know, so an older holdfast can open a newer thread.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

VERSION = 1


class MetaBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a thread is: its first record, and another each time that changes; the newest counts.

    `agent` is the sub-agent whose chain it holds; a fork has its root's.
    """

    dialect: str
    parent: str | None = None
    agent: str = ""
    title: str | None = None
    archived: bool = False
    v: int = VERSION


class TurnBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's request begins here; `preview` is its first line."""

    preview: str = ""
    model: str | None = None
    v: int = VERSION


class ContextBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model was told outside its history: every field that is not history, and the leading items."""

    fields: dict[str, msgspec.Raw]
    head: list[msgspec.Raw] = msgspec.field(default_factory=list)
    v: int = VERSION


class ReplyBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider answered, beside the history until the client echoes it."""

    items: list[msgspec.Raw]
    outcome: str
    estimated_tokens: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    response_id: str | None = None
    v: int = VERSION


class RollbackBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The path goes on from `target` (a column of the record); everything between is left behind."""

    turns: int
    v: int = VERSION


class UndoBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The checkpoint at `target` (a column of the record) no longer counts."""

    v: int = VERSION


class KeepEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="keep"):
    """A position of a checkpoint's replacement: a record as it is."""

    thread: str
    ordinal: int
    depth: int | None = None


class StubEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="stub"):
    """A position of a checkpoint's replacement: a record whose payload gave way to the one line in `item`."""

    thread: str
    ordinal: int
    item: msgspec.Raw
    depth: int | None = None


class StateEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="state"):
    """A position of a checkpoint's replacement: the session state, which no record holds."""

    item: msgspec.Raw


LayoutEntry = KeepEntry | StubEntry | StateEntry


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The durable result of one compaction.

    Attributes:
        base: The checkpoint it was computed on, if any.
        cut: First ordinal of the path that it does not replace (also the record's `target`).
        covers: How many links of the client's chain stand before the cut.
        layout: What stands in place of everything before the cut, in order.
        state: The session state, in the form of `holdfast.compaction`.
        audit: What had to survive, and whether it did.
        figures: Tokens, calls, milliseconds.
    """

    strategy: str
    cut: int
    covers: int
    layout: list[LayoutEntry]
    state: msgspec.Raw
    audit: msgspec.Raw
    figures: dict[str, int]
    base: int | None = None
    focus: str | None = None
    fell_back_from: str | None = None
    v: int = VERSION


B = TypeVar("B", bound=msgspec.Struct)


def encode_body(body: msgspec.Struct) -> bytes:
    """Return a record body."""
    return msgspec.json.encode(body)


def decode_body(raw: bytes, form: type[B]) -> B:
    """Return a record body as the form its kind has."""
    return msgspec.json.decode(raw, type=form)
