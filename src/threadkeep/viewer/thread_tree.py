"""The tree of threads that a thread stands in: what it was forked from or spawned by, its forks and sub-agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from threadkeep.client.threadkeep import EVERY
from threadkeep.store import ThreadRow, ThreadStore
from threadkeep.threads.agents import Edge, find_spawner, list_children
from threadkeep.threads.summary import find_title


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A thread in a tree. `is_last` says that no younger sibling follows; `edge` names the thread that spawned it."""

    row: ThreadRow
    depth: int
    is_last: bool = False
    title: str = ""
    edge: Edge | None = None

    @property
    def at(self) -> int | None:
        """The record of its parent at which it begins."""
        return self.row.start if self.row.parent is not None else None


async def find_tree(store: ThreadStore, thread_id: str, *, most: int = EVERY) -> list[Relative]:
    """Return the tree of a thread from its oldest ancestor on, parents before children, the earliest fork first."""
    by_id = {row.id: row for row in await store.threads(limit=EVERY)}
    forks: defaultdict[str, list[ThreadRow]] = defaultdict(list)
    for row in by_id.values():
        if row.parent is not None:
            forks[row.parent].append(row)
    root = await _find_root(store, by_id, of=thread_id)
    tree: list[Relative] = []
    waiting, seen = [Relative(row=root, depth=0, is_last=True)], {root.id}
    # No recursion: forks may run deep.
    while waiting and len(tree) < most:
        relative = waiting.pop()
        tree.append(replace(relative, title=await find_title(store, relative.row)))
        # Each fork is asked for its spawner, so that no more are asked than are shown.
        earliest = sorted(forks[relative.row.id], key=_sort_key)[:most]
        children = await _find_children(store, by_id, earliest, of=relative)
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
    return [Relative(row=row, depth=of.depth + 1, edge=edges.get(row.id)) for row in sorted(rows.values(), key=_sort_key)]


def _sort_key(row: ThreadRow) -> tuple[int, int, str]:
    return row.start if row.parent is not None else 0, row.created_at_ms, row.id
