"""`threadkeep show --window`: what the model sees next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.cleaning import one_line
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.wording import LINE_CHARS, raw_text, speaker
from threadkeep.client import Thread, Threadkeep
from threadkeep.items import View
from threadkeep.threads import EntryKind, History, WindowEntry

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen


async def show_window(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print the window; as JSON, every item with the bytes it is sent with."""
    history = await thread.history()
    if as_json:
        items = [msgspec.Raw(item.raw) for item in history.items]
        print_json({"thread": thread.id, "dialect": thread.dialect.name, "tokens": history.tokens, "items": items})
    else:
        _tell(open_screen(), thread, history, full=tk.backend.limits.full)


def _tell(screen: Screen, thread: Thread, history: History, *, full: int) -> None:
    since = f", checkpoint #{history.checkpoint_ordinal} and what came after it" if history.checkpoint else ""
    screen.line((thread.id, "bold"), f"  {len(history.entries):,} items, {history.tokens:,} of {full:,} tokens{since}")
    screen.gap()
    rows: list[list[Part]] = []
    for entry in history.entries:
        view = thread.dialect.view(entry.item)
        record: Part = (f"#{entry.source.ordinal}" if entry.source else "", "dim")
        rows.append([record, _who(entry, view), f"{entry.tokens:,}", _line(entry, view)])
    screen.table([">record", "what", ">tokens", "text"], rows)


def _who(entry: WindowEntry, view: View) -> Part:
    match entry.kind:
        case EntryKind.STATE:
            return ("session state", "bold magenta")
        case EntryKind.STUB:
            return ("stub", "dim")
        case EntryKind.START:
            return ("session start", "magenta")
        case EntryKind.KEEP | EntryKind.LITERAL:
            return speaker(view)


def _line(entry: WindowEntry, view: View) -> Part:
    if entry.kind is EntryKind.STATE:
        return ("what the newest checkpoint carries forward; `show --state` lists it", "dim")
    return one_line(view.text or raw_text(entry.item.raw), limit=LINE_CHARS)
