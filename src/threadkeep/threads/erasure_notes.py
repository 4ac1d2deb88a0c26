"""What remains of an erasure: a note, and placeholders for erased halves of tool calls.

Nothing here holds erased text. A placeholder is made from the half that remains, so that every call has an output and every
output has a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.items import Item, Role
from threadkeep.store import Record, RecordKind
from threadkeep.tokens import estimate_item

ERASED: Final = "(erased)"
# In a host element, so that it is not taken for a person's words.
OPENING: Final = f"<system-reminder>\n{ERASED}\n</system-reminder>"


class ErasureNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="note", tag="erasure"):
    """The record of an erasure: which ordinals, why and by whom; nothing of what was erased.

    `thread` is the thread the erasure was asked for, empty for this one.
    """

    ordinals: list[int]
    asked: list[int]
    reason: str = ""
    by: str = ""
    thread: str = ""
    v: int = 1


_notes: msgspec.json.Decoder[ErasureNote] = msgspec.json.Decoder(ErasureNote)


def read_erasure_note(body: bytes) -> ErasureNote | None:
    """Return the erasure note in a record body; None for any other note."""
    try:
        return _notes.decode(body)
    except msgspec.MsgspecError:
        return None


def fill_erased(records: Sequence[Record], *, dialect: Dialect, begins: bool) -> list[Record]:
    """Return records of one path, with a placeholder for each erased item whose call or output is still there.

    With `begins` the first record begins the window: if the provider requires a user message first, an erased one gets a
    placeholder too.
    """
    items = sorted((record for record in records if record.kind is RecordKind.ITEM), key=lambda record: record.ordinal)
    made = _make_placeholders(items, dialect=dialect)
    shown = [each for each in items if each.ordinal in made or not each.erased]
    if begins and dialect.opens_with_user and shown and items[0].erased and items[0].ordinal not in made:
        first = made.get(shown[0].ordinal) or Item(shown[0].body)
        if dialect.view(first).role is Role.ASSISTANT:
            made[items[0].ordinal] = dialect.make_user_message(OPENING)
    return [_replace_body(record, made.get(record.ordinal)) for record in records]


def _make_placeholders(items: Sequence[Record], *, dialect: Dialect) -> dict[int, Item]:
    """Return placeholders by ordinal: of calls, right before the outputs that lack one, and of outputs after their calls."""
    left = {record.ordinal: Item(record.body) for record in items if not record.erased}
    views = {ordinal: dialect.view(item) for ordinal, item in left.items()}
    opened = {call: ordinal for ordinal, view in views.items() for call in view.opens}
    closed = {call: ordinal for ordinal, view in views.items() for call in view.closes}
    gone = [record.ordinal for record in items if record.erased]
    made: dict[int, Item] = {}
    for ordinal in reversed(gone):
        outputs = [(call, left[at]) for call, at in closed.items() if at > ordinal and call not in opened]
        call_item = dialect.make_erased_call(outputs) if outputs else None
        if call_item is not None:
            made[ordinal] = call_item
            opened |= dict.fromkeys(dialect.view(call_item).opens, ordinal)
    for ordinal in gone:
        waiting = [call for call, at in opened.items() if at < ordinal and call not in closed]
        output = _make_output(left[opened[waiting[0]]], waiting, dialect=dialect) if ordinal not in made and waiting else None
        if output is not None:
            made[ordinal] = output
            closed |= dict.fromkeys(dialect.view(output).closes, ordinal)
    return made


def _make_output(caller: Item, calls: Sequence[str], *, dialect: Dialect) -> Item | None:
    """Return a placeholder output for those of the calls that one item opened."""
    own = set(dialect.view(caller).opens)
    aborted = dialect.abort_calls(caller, [call for call in calls if call in own])
    return (dialect.replace_output(aborted[0], ERASED) or aborted[0]) if aborted else None


def _replace_body(record: Record, item: Item | None) -> Record:
    return record if item is None else replace(record, body=item.raw, tokens=estimate_item(item.raw), erased=False)
