"""`holdfast show --tree`: the threads one was forked from, and those forked from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.cli.output import open_screen, print_json
from holdfast.runtime import Holdfast, Thread
from holdfast.runtime.holdfast import EVERY
from holdfast.store import RecordKind, Span, ThreadRow, ThreadStore
from holdfast.thread import TurnBody, decode_body

if TYPE_CHECKING:
    from holdfast.cli.screen import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A thread of the family. `at` is the record of its parent it begins at; `last` that no younger sibling follows."""

    row: ThreadRow
    depth: int
    last: bool

    @property
    def at(self) -> int | None:
        return self.row.start if self.row.parent is not None else None


async def show_family(hf: Holdfast, thread: Thread, *, as_json: bool) -> None:
    """Print the whole tree the thread stands in, from its oldest ancestor on."""
    store = hf.backend.store
    rows = await store.threads(limit=EVERY)
    family = [(relative, await title_of(store, relative.row)) for relative in _walk(rows, of=thread.id)]
    if as_json:
        threads = [
            {"id": relative.row.id, "parent": relative.row.parent, "at": relative.at, "depth": relative.depth, "title": title}
            for relative, title in family
        ]
        print_json({"thread": thread.id, "threads": threads})
    else:
        _tell(open_screen(), family, here=thread.id)


async def title_of(store: ThreadStore, row: ThreadRow) -> str:
    """Return the first line a person said in a thread, or, before anything was said there, in the one it continues."""
    while True:
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        for record in await store.read(own, kinds={RecordKind.TURN}, limit=1):
            return decode_body(record.body, TurnBody).preview
        if row.parent is None:
            return ""
        row = await store.get(row.parent)


def _walk(rows: Iterable[ThreadRow], *, of: str) -> Iterator[Relative]:
    """Yield the family of a thread, parents before children, the earliest fork first. No recursion: forks may run deep."""
    by_id = {row.id: row for row in rows}
    children: defaultdict[str, list[ThreadRow]] = defaultdict(list)
    for row in by_id.values():
        if row.parent is not None:
            children[row.parent].append(row)
    root = by_id[of]
    while root.parent is not None and root.parent in by_id:
        root = by_id[root.parent]
    waiting = [Relative(row=root, depth=0, last=True)]
    while waiting:
        relative = waiting.pop()
        yield relative
        forks = sorted(children[relative.row.id], key=lambda row: (row.start, row.created_at_ms, row.id), reverse=True)
        waiting.extend(Relative(row=row, depth=relative.depth + 1, last=at == 0) for at, row in enumerate(forks))


def _tell(screen: Screen, family: list[tuple[Relative, str]], *, here: str) -> None:
    lines: list[bool] = []
    for relative, title in family:
        del lines[relative.depth :]
        guide = "".join("│  " if goes_on else "   " for goes_on in lines[1:]) + (
            "" if not relative.depth else "└─ " if relative.last else "├─ "
        )
        lines.append(not relative.last)
        screen.cut_line(
            (guide, "dim"),
            (relative.row.id, "bold green" if relative.row.id == here else "bold"),
            (f"  from #{relative.at}" if relative.at is not None else "", "dim"),
            ("  this one" if relative.row.id == here else "", "green"),
            f"  {title}",
        )
