"""What a page may change, where changes are allowed: each is one small record, and can be seen in the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from threadkeep.client import Thread
from threadkeep.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done, in a word for the address of the next page.

    `thread` is where to go on, `at` the record it made, `entry` the one of the session state it is about, shown on `page`.
    """

    what: str
    thread: str
    at: int | None = None
    page: str = ""
    entry: str = ""


async def act(what: str, thread: Thread, form: Mapping[str, str]) -> Done:
    """Do what a form asks for.

    Raises:
        BadInput: The form does not say what it must, or there is no such change.
        ThreadkeepError: What the library says to the same.
    """
    match what:
        case "note":
            noted = await thread.note(form.get("text", ""), pinned=bool(form.get("pinned")))
            return Done(what=what, thread=thread.id, at=noted.record)
        case "pin" | "unpin":
            remarked = await (thread.pin if what == "pin" else thread.unpin)(form.get("entry", ""))
            return Done(what=what, thread=thread.id, page="state", entry=remarked.entries[0].id)
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


def _number(form: Mapping[str, str], name: str) -> int | None:
    said = form.get(name, "").strip().removeprefix("#")
    if not said:
        return None
    if not (said.isascii() and said.isdecimal()) or len(said) > 15:
        raise BadInput(f"{name} must be a number, not {said!r}")
    return int(said)
