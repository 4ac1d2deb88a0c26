"""`threadkeep show --tree`: the threads that one was forked from or spawned by, and those forked from it or spawned by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread, Threadkeep
from threadkeep.client.threadkeep import EVERY
from threadkeep.store import ThreadRow, ThreadStore
from threadkeep.threads.agents import Edge, find_spawner, list_children
from threadkeep.viewer.thread_list import find_title

if TYPE_CHECKING:
    from threadkeep.cli.screen import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A thread in the tree. `is_last` says that no younger sibling follows; `edge` names the thread that spawned it."""

    row: ThreadRow
    depth: int
    is_last: bool
    edge: Edge | None = None

    @property
    def at(self) -> int | None:
        """The record of its parent at which it begins."""
        return self.row.start if self.row.parent is not None else None


async def show_tree(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print the whole tree the thread stands in, from its oldest ancestor on."""
    store = tk.backend.store
    rows = await store.threads(limit=EVERY)
    tree = [(relative, await find_title(store, relative.row)) for relative in await _walk(store, rows, of=thread.id)]
    if as_json:
        print_json({"thread": thread.id, "threads": [_encode_relative(relative, title) for relative, title in tree]})
    else:
        _print_tree(open_screen(), tree, here=thread.id)


def _encode_relative(relative: Relative, title: str) -> dict[str, object]:
    row, edge = relative.row, relative.edge
    shown: dict[str, object] = {"id": row.id, "parent": row.parent, "at": relative.at, "depth": relative.depth, "title": title}
    return shown | {"spawned_by": edge.parent, "status": edge.status, "name": edge.name} if edge else shown


async def _walk(store: ThreadStore, rows: Iterable[ThreadRow], *, of: str) -> list[Relative]:
    """Return the tree of a thread, parents before children, the earliest fork first. No recursion: forks may run deep."""
    by_id = {row.id: row for row in rows}
    forks: defaultdict[str, list[ThreadRow]] = defaultdict(list)
    for row in by_id.values():
        if row.parent is not None:
            forks[row.parent].append(row)
    tree: list[Relative] = []
    root = await _find_root(store, by_id, of=of)
    waiting = [Relative(row=root, depth=0, is_last=True)]
    seen = {root.id}
    while waiting:
        relative = waiting.pop()
        tree.append(relative)
        children = await _find_children(store, by_id, forks[relative.row.id], of=relative)
        new = [child for child in children if child.row.id not in seen]
        seen.update(child.row.id for child in new)
        waiting.extend(replace(child, is_last=at == 0) for at, child in enumerate(reversed(new)))
    return tree


async def _find_root(store: ThreadStore, by_id: Mapping[str, ThreadRow], *, of: str) -> ThreadRow:
    """Return the oldest ancestor; one that is missing, or was passed already, ends the search."""
    root, passed = by_id[of], {of}
    while (above := await find_spawner(store, root.id) or root.parent) is not None and above in by_id and above not in passed:
        root = by_id[above]
        passed.add(above)
    return root


async def _find_children(
    store: ThreadStore, by_id: Mapping[str, ThreadRow], forks: Iterable[ThreadRow], *, of: Relative
) -> list[Relative]:
    """Return a thread's forks and sub-agents, earliest first; a sub-agent stands below its spawner, wherever it was forked."""
    edges = {edge.child: edge for edge in await list_children(store, of.row.id)}
    rows = {row.id: row for row in forks if row.id in edges or await find_spawner(store, row.id) is None}
    rows |= {child: by_id[child] for child in edges if child in by_id}
    ordered = sorted(rows.values(), key=lambda row: (row.start if row.parent is not None else 0, row.created_at_ms, row.id))
    return [Relative(row=row, depth=of.depth + 1, is_last=False, edge=edges.get(row.id)) for row in ordered]


def _print_tree(screen: Screen, tree: list[tuple[Relative, str]], *, here: str) -> None:
    goes_on: list[bool] = []
    for relative, title in tree:
        del goes_on[relative.depth :]
        lines = "".join("│  " if more else "   " for more in goes_on[1:])
        branch = "" if not relative.depth else "└─ " if relative.is_last else "├─ "
        goes_on.append(not relative.is_last)
        edge, is_here = relative.edge, relative.row.id == here
        screen.write_cut(
            (lines + branch, "dim"),
            (relative.row.id, "bold green" if is_here else "bold"),
            (f"  from #{relative.at}" if relative.at is not None else "", "dim"),
            (f"  {edge.name or 'sub-agent'}, {edge.status}" if edge else "", "cyan"),
            ("  this one" if is_here else "", "green"),
            f"  {title}",
        )
