"""`threadkeep show --tree`: the threads one was forked from or spawned by, and those forked from it or spawned by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread, Threadkeep
from threadkeep.client.threadkeep import EVERY
from threadkeep.store import RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import TurnBody
from threadkeep.threads.agents import Edge, find_spawner, list_children
from threadkeep.threads.reader import read_body

if TYPE_CHECKING:
    from threadkeep.cli.screen import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A thread of the family.

    `at` is the record of its parent it begins at; `last` that no younger sibling follows; `edge` says who spawned it.
    """

    row: ThreadRow
    depth: int
    last: bool
    edge: Edge | None = None

    @property
    def at(self) -> int | None:
        return self.row.start if self.row.parent is not None else None


async def show_family(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print the whole tree the thread stands in, from its oldest ancestor on."""
    store = tk.backend.store
    rows = await store.threads(limit=EVERY)
    family = [(relative, await title_of(store, relative.row)) for relative in await _walk(store, rows, of=thread.id)]
    if as_json:
        print_json({"thread": thread.id, "threads": [_told(relative, title) for relative, title in family]})
    else:
        _tell(open_screen(), family, here=thread.id)


async def title_of(store: ThreadStore, row: ThreadRow) -> str:
    """Return the first line a person said in a thread, or, before anything was said there, in the one it continues.

    Empty where that line was erased or cannot be read.
    """
    while True:
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        for record in await store.read(own, kinds={RecordKind.TURN}, limit=1):
            opened = read_body(record, TurnBody)
            return opened.preview if opened else ""
        if row.parent is None:
            return ""
        row = await store.get(row.parent)


def _told(relative: Relative, title: str) -> dict[str, object]:
    row, edge = relative.row, relative.edge
    told: dict[str, object] = {"id": row.id, "parent": row.parent, "at": relative.at, "depth": relative.depth, "title": title}
    return told | {"spawned_by": edge.parent, "status": edge.status, "name": edge.name} if edge else told


async def _walk(store: ThreadStore, rows: Iterable[ThreadRow], *, of: str) -> list[Relative]:
    """Return the family of a thread, parents before children, the earliest fork first. No recursion: forks may run deep."""
    by_id = {row.id: row for row in rows}
    forks: defaultdict[str, list[ThreadRow]] = defaultdict(list)
    for row in by_id.values():
        if row.parent is not None:
            forks[row.parent].append(row)
    family: list[Relative] = []
    root = await _root(store, by_id, of=of)
    waiting = [Relative(row=root, depth=0, last=True)]
    seen = {root.id}
    while waiting:
        relative = waiting.pop()
        family.append(relative)
        below = await _children(store, by_id, forks[relative.row.id], of=relative)
        young = [child for child in below if child.row.id not in seen]
        seen.update(child.row.id for child in young)
        waiting.extend(replace(child, last=at == 0) for at, child in enumerate(reversed(young)))
    return family


async def _root(store: ThreadStore, by_id: Mapping[str, ThreadRow], *, of: str) -> ThreadRow:
    """Return the oldest ancestor; one that is not there, or that the walk has passed already, ends it."""
    root, passed = by_id[of], {of}
    while (above := await find_spawner(store, root.id) or root.parent) is not None and above in by_id and above not in passed:
        root = by_id[above]
        passed.add(above)
    return root


async def _children(
    store: ThreadStore, by_id: Mapping[str, ThreadRow], forks: Iterable[ThreadRow], *, of: Relative
) -> list[Relative]:
    """Return a thread's forks and sub-agents, earliest first; a sub-agent stands below who spawned it, wherever it was forked."""
    edges = {edge.child: edge for edge in await list_children(store, of.row.id)}
    rows = {row.id: row for row in forks if row.id in edges or await find_spawner(store, row.id) is None}
    rows |= {child: by_id[child] for child in edges if child in by_id}
    ordered = sorted(rows.values(), key=lambda row: (row.start if row.parent is not None else 0, row.created_at_ms, row.id))
    return [Relative(row=row, depth=of.depth + 1, last=False, edge=edges.get(row.id)) for row in ordered]


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
            (_spawned(relative.edge), "cyan"),
            ("  this one" if relative.row.id == here else "", "green"),
            f"  {title}",
        )


def _spawned(edge: Edge | None) -> str:
    if edge is None:
        return ""
    return f"  {edge.name or 'sub-agent'}, {edge.status}"
