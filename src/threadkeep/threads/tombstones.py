"""What remains of an erasure: a note, and placeholders for erased halves of tool calls.

Nothing here holds erased text. A placeholder is made from the half that remains, so that every call has an output and every
output has a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.items import Item, Role, View
from threadkeep.threads.records import Pointer

ERASED: Final = "(erased)"
# In a host element, so that it is not taken for a person's words.
OPENING: Final = f"<system-reminder>\n{ERASED}\n</system-reminder>"


class Half(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The call ids that an erased item opened and closed."""

    opens: list[str] = msgspec.field(default_factory=list)
    closes: list[str] = msgspec.field(default_factory=list)


class ErasureNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="note", tag="erasure"):
    """The record of an erasure: which ordinals, why and by whom; nothing of what was erased.

    `thread` is the thread the erasure was asked for, empty for this one; `halves` are the erased items, by ordinal, whose other
    half of a call remains.
    """

    ordinals: list[int]
    asked: list[int]
    reason: str = ""
    by: str = ""
    thread: str = ""
    halves: dict[int, Half] = msgspec.field(default_factory=dict)
    v: int = 1


_notes: msgspec.json.Decoder[ErasureNote] = msgspec.json.Decoder(ErasureNote)


def read_erasure_note(body: bytes) -> ErasureNote | None:
    """Return the erasure note in a record body; None for any other note."""
    try:
        return _notes.decode(body)
    except msgspec.MsgspecError:
        return None


def make_placeholders(halves: Mapping[Pointer, Half], items: Iterable[Item], *, dialect: Dialect) -> dict[Pointer, Item]:
    """Return placeholders for erased items whose other half is among `items`."""
    callers: dict[str, Item] = {}
    outputs: dict[str, Item] = {}
    for item in items:
        view = dialect.view(item)
        callers.update(dict.fromkeys(view.opens, item))
        outputs.update(dict.fromkeys(view.closes, item))
    made: dict[Pointer, Item] = {}
    for pointer, half in halves.items():
        lost = [call for call in half.closes if call in callers and call not in outputs]
        orphaned = [call for call in half.opens if call in outputs and call not in callers]
        stand_in = (
            _make_output_placeholder(callers, lost, dialect=dialect)
            if lost
            else make_call_placeholder([(call, outputs[call]) for call in orphaned], dialect=dialect)
        )
        if stand_in is not None:
            made[pointer] = stand_in
    return made


def make_call_placeholder(outputs: Sequence[tuple[str, Item]], *, dialect: Dialect) -> Item | None:
    """Return an empty message with the calls of these outputs; None if the dialect allows none."""
    return dialect.make_erased_call(outputs) if outputs else None


def make_opening_placeholder(first: Item | None, *, dialect: Dialect) -> Item | None:
    """Return a placeholder for an erased beginning, before the first item left; None if none is needed."""
    if not dialect.opens_with_user or first is None or dialect.view(first).role is not Role.ASSISTANT:
        return None
    return dialect.make_user_message(OPENING)


def select_half(view: View, ids: Iterable[str]) -> Half | None:
    """Return the part of these calls that an item opens or closes; None if it has none."""
    wanted = set(ids)
    half = Half(opens=[call for call in view.opens if call in wanted], closes=[call for call in view.closes if call in wanted])
    return half if half.opens or half.closes else None


def _make_output_placeholder(callers: Mapping[str, Item], calls: Sequence[str], *, dialect: Dialect) -> Item | None:
    """Return a placeholder output for calls that one item opened."""
    for made in dialect.abort_calls(callers[calls[0]], calls):
        return dialect.replace_output(made, ERASED) or made
    return None
