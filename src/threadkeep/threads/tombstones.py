"""What is left of what was erased: a note that it was, and, where half of a tool call is gone, what stands in its place.

Nothing here holds a word of what was erased. A placeholder is made of the half that is still there, in its own dialect, so that
a provider finds every call answered and every answer called for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.items import Item, Role, View
from threadkeep.threads.records import Pointer

ERASED: Final = "(erased)"
# Said by no person, and so never taken for anything one said.
OPENING: Final = f"<system-reminder>\n{ERASED}\n</system-reminder>"


class Half(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which calls an erased item opened and closed, by their ids."""

    opens: list[str] = msgspec.field(default_factory=list)
    closes: list[str] = msgspec.field(default_factory=list)


class ErasureNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="note", tag="erasure"):
    """What is kept of an erasure: that it was, why, and what it reached. Nothing of what was erased.

    `thread` is the thread it was asked for, empty if that is this one; `halves` are those of its items whose calls somebody still
    sees the other half of, by ordinal.
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
    """Return the erasure a note tells of; None where it tells of something else."""
    try:
        return _notes.decode(body)
    except msgspec.MsgspecError:
        return None


def make_placeholders(halves: Mapping[Pointer, Half], items: Iterable[Item], *, dialect: Dialect) -> dict[Pointer, Item]:
    """Return what stands in the place of erased items, given all that is left around them; nothing where no half is left."""
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
    """Return the message that calls for these outputs, by call id, and says nothing else; None where the form allows none."""
    return dialect.make_erased_call(outputs) if outputs else None


def make_opening_placeholder(first: Item | None, *, dialect: Dialect) -> Item | None:
    """Return what stands in for an erased beginning before the first item that is left; None where nothing needs to."""
    if not dialect.opens_with_user or first is None or dialect.view(first).role is not Role.ASSISTANT:
        return None
    return dialect.make_user_message(OPENING)


def select_half(view: View, ids: Iterable[str]) -> Half | None:
    """Return what of an item is half of one of these calls; None if nothing is."""
    wanted = set(ids)
    half = Half(opens=[call for call in view.opens if call in wanted], closes=[call for call in view.closes if call in wanted])
    return half if half.opens or half.closes else None


def _make_output_placeholder(callers: Mapping[str, Item], calls: Sequence[str], *, dialect: Dialect) -> Item | None:
    """Return the output of calls that one item opened, in the form they have."""
    for made in dialect.abort_calls(callers[calls[0]], calls):
        return dialect.replace_output(made, ERASED) or made
    return None
