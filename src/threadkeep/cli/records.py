"""`threadkeep show --records`: everything that was recorded, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.figures import clock_time, count
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.wording import described, named
from threadkeep.client import Thread, Threadkeep
from threadkeep.store import Record
from threadkeep.threads.reader import load_live_path

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen


async def show_records(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print every record of the thread itself; a fork's history before it is its parent's to show."""
    records = await thread.records()
    path = await load_live_path(tk.backend.store, thread.id, whole=True)
    live = {record.ordinal for record in records if path.find_thread(record.ordinal) == thread.id}
    if as_json:
        print_json({"thread": thread.id, "records": [_as_json(record, live=record.ordinal in live) for record in records]})
    else:
        _tell(open_screen(), thread, records, live=live)


def _as_json(record: Record, *, live: bool) -> dict[str, object]:
    return {
        "ordinal": record.ordinal,
        "kind": record.kind,
        "at_ms": record.at_ms,
        "turn": record.turn,
        "tokens": record.tokens,
        "live": live,
        "body": _body(record.body),
    }


def _body(body: bytes) -> object:
    """Return a body as the JSON it is, byte for byte, or as text where it is none."""
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
    return msgspec.Raw(body)


def _tell(screen: Screen, thread: Thread, records: list[Record], *, live: set[int]) -> None:
    rows: list[list[Part]] = []
    for record in records:
        counts = record.ordinal in live
        name, text = named(record, thread.dialect), described(record, thread.dialect)
        rows.append(
            [
                (f"#{record.ordinal}", "" if counts else "dim strike"),
                (clock_time(record.at_ms), "dim"),
                f"{record.turn}",
                name if counts else (f"({name if isinstance(name, str) else name[0]})", "dim"),
                f"{record.tokens:,}" if record.tokens else "",
                text if counts else (text, "dim"),
            ]
        )
    screen.table([">record", "when", ">turn", "what", ">tokens", "text"], rows)
    if left := len(records) - len(live):
        screen.line((f"{count(left, 'record')} in parentheses: taken back by a rollback, still readable", "dim"))
