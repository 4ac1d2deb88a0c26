"""What each tool takes: checked before anything is done, and explained to whoever got it wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from threadkeep.compaction.pins import NOTE_CHARS
from threadkeep.errors import BadInput

MOST_HITS = 20
MOST_THREADS = 100
LONGEST_QUERY = 2_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Arguments of a tool; whatever else is given is refused by name."""


class RecallArguments(Strict, frozen=True):
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_QUERY)]
    thread: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_HITS)] = 5
    start: Annotated[int, msgspec.Meta(ge=0)] = 0


class ThreadsArguments(Strict, frozen=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_THREADS)] = 20


class StateArguments(Strict, frozen=True):
    thread: Name | None = None


class NoteArguments(Strict, frozen=True):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=NOTE_CHARS)]
    thread: Name | None = None
    from_user: bool = False
    pinned: bool = False


class PinArguments(Strict, frozen=True):
    entry: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    thread: Name | None = None
    pinned: bool = True


A = TypeVar("A", bound=Strict)

_THREAD = {
    "type": "string",
    "minLength": 1,
    "maxLength": 128,
    "description": "A thread's id, or any beginning of it that no other shares; leave it out for the default thread.",
}


def schema(properties: Mapping[str, Mapping[str, Any]], *required: str, thread: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments; nothing else may be given."""
    named = {**properties, **({"thread": _THREAD} if thread else {})}
    return {"type": "object", "properties": named, "required": list(required), "additionalProperties": False}


def taken(tool: str, given: Mapping[str, Any] | None, form: type[A]) -> A:
    """Return the arguments of a call.

    Raises:
        BadInput: They are not what the tool takes; it says what is wrong and what would be right.
    """
    try:
        return msgspec.convert(dict(given or {}), form, strict=True)
    except msgspec.ValidationError as error:
        fields = ", ".join(
            f"{field.name}" if field.required else f"{field.name} (optional)" for field in msgspec.structs.fields(form)
        )
        raise BadInput(f"{tool} cannot be called like this: {error}. It takes {fields}.") from None
