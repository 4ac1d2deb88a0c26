"""What a page may change, where changes are allowed: each is one small record, and can be seen in the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from holdfast.errors import BadInput, OrdinalConflict
from holdfast.runtime import Holdfast, Thread
from holdfast.runtime.reading import current_turn
from holdfast.store import NewRecord, RecordKind

NOTE_CHARS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done, in a word for the address of the next page; `thread` is where to go on, `at` the record it made."""

    what: str
    thread: str
    at: int | None = None


async def act(what: str, hf: Holdfast, thread: Thread, form: Mapping[str, str]) -> Done:
    """Do what a form asks for.

    Raises:
        BadInput: The form does not say what it must, or there is no such change.
        HoldfastError: What the library says to the same.
    """
    match what:
        case "note":
            return await _note(hf, thread, form.get("text", ""))
        case "compact":
            report = await thread.compact(strategy=form.get("strategy") or None, focus=form.get("focus", "").strip() or None)
            return Done(what=what, thread=thread.id, at=report.checkpoint)
        case "undo":
            return Done(what=what, thread=thread.id, at=await thread.undo())
        case "fork":
            child = await thread.fork(at=_number(form, "at"), new_id=form.get("name", "").strip() or None)
            return Done(what=what, thread=child.id)
        case "rollback":
            went = await thread.rollback(turns=_number(form, "turns") or 1)
            return Done(what=what, thread=thread.id, at=went.at)
        case _:
            raise BadInput(f"there is no change called {what!r}")


async def _note(hf: Holdfast, thread: Thread, text: str) -> Done:
    """Write a person's note into the thread's log. It stands beside the history: no model is ever shown it."""
    words = text.strip()
    if not words or len(words) > NOTE_CHARS:
        raise BadInput(f"a note has between 1 and {NOTE_CHARS} characters")
    body = msgspec.json.encode({"event": "note", "text": words})
    backend = hf.backend
    row = await backend.store.get(thread.id)
    turn = await current_turn(backend.store, row, stop=row.next)
    note = NewRecord(kind=RecordKind.NOTE, at_ms=backend.clock.now_ms(), turn=turn, tokens=0, body=body)
    expected = row.next
    while True:
        try:
            return Done(what="note", thread=thread.id, at=await backend.append(thread.id, [note], expected=expected) - 1)
        except OrdinalConflict as moved:
            # The agent is at work; a note is as true one record later.
            expected = moved.actual


def _number(form: Mapping[str, str], name: str) -> int | None:
    said = form.get(name, "").strip().removeprefix("#")
    if not said:
        return None
    if not (said.isascii() and said.isdecimal()) or len(said) > 15:
        raise BadInput(f"{name} must be a number, not {said!r}")
    return int(said)
