"""For a host that keeps its own history: records what is new in what it shows, and returns the window it is to send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import msgspec

from threadkeep.client import Head, Thread, Threadkeep, Window
from threadkeep.compaction import read_ledger
from threadkeep.compaction.audit import AuditReport
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.ledger import dump_ledger
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.compaction.trigger import RoomMaker, make_order
from threadkeep.dialects import Dialect
from threadkeep.errors import InvalidTarget, OrdinalConflict
from threadkeep.items import Item, seed_chain
from threadkeep.llm.base import Model
from threadkeep.store import Found, NewRecord, RecordKind
from threadkeep.threads import (
    Checkpoint,
    History,
    KeepEntry,
    LayoutEntry,
    LivePath,
    ReplyBody,
    RollbackBody,
    Tip,
    WindowEntry,
    encode_body,
)
from threadkeep.threads.forks_and_undos import prepare_fork
from threadkeep.threads.reader import load_history, load_live_path, load_tip
from threadkeep.threads.window import close_open_calls
from threadkeep.threads.writer import Accept, ThreadStart, append_beside, append_items, compute_chain, find_deepest, make_arrival

STRATEGY = "followed"
# Another writer of the same thread is another copy of the same host; it comes to rest after a few tries.
ATTEMPTS = 16
# How many compactions a host may be behind: it crashed before it kept one, or shows what stood before it once more.
BEHIND = 4
# How many of a thread's newest items tell whether a rewritten history is one of its own at all.
RECENT = 256
PAGE = 16
NEXT_STEP = frozenset({RecordKind.TURN, RecordKind.ITEM, RecordKind.NOTE})

Diverging = Literal["rollback", "fork"]


async def follow(
    tk: Threadkeep,
    thread_id: str,
    dialect: str,
    items: Sequence[Mapping[str, object]],
    *,
    model: str | None = None,
    diverging: Diverging = "rollback",
) -> Thread:
    """Make a thread end where a host's history does, and return it; created if need be. Durable when it returns.

    Showing the same history again records nothing, from any number of processes, and so does showing the one from before a
    compaction. A window the host was given is recognised, its session state too, and only what follows it is recorded. Where the
    host left what is known, the thread is rolled back to there; where it left it inside a compacted window, what it still shows
    of that window is laid down as a checkpoint of its own, with all the session remembers. Nothing is ever removed.

    Args:
        items: The host's whole current history as provider JSON, oldest first, without what goes out beside it (system, tools).
        model: Who is asked next, noted with the turn.
        diverging: `fork` leaves the thread as it is and goes on in a fork of it, found again by what it holds: for hosts that
            use one name for several histories. The thread returned is then another one.

    Raises:
        InvalidThreadId: The name cannot be an id.
        InvalidItem: One of the items is not of the dialect; nothing was recorded.
        InvalidTarget: There is such a thread, and it speaks another dialect.
        OrdinalConflict: Others kept writing to the same thread.
    """
    thread = await tk.thread(thread_id, dialect=dialect)
    if thread.dialect.name != dialect:
        raise InvalidTarget(thread_id, f"speaks {thread.dialect.name!r}, not {dialect!r}; use another id")
    shown = [thread.dialect.parse(dict(item)) for item in items]
    follower = _Follower(tk.backend, thread.dialect, shown, model=model)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return thread.sibling(await follower.settle(thread.id, diverging=diverging))
        except OrdinalConflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the loop returns or raises")


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """One way the history may look to the host, before neighbours are joined, and how far the host agrees.

    Attributes:
        entries: The entry of each position; None where it only says that a call was aborted.
        known: How many positions the host agrees with.
        shown: How many of the host's own items these are.
    """

    history: History
    entries: tuple[WindowEntry | None, ...]
    known: int
    shown: int

    @property
    def is_whole(self) -> bool:
        return not self.find_entries(self.known)

    def find_entries(self, start: int = 0, stop: int | None = None) -> list[WindowEntry]:
        return [entry for entry in self.entries[start:stop] if entry is not None]

    def make_layout(self) -> list[LayoutEntry]:
        """Return what a checkpoint needs to lay out the known positions again."""
        placed = self.history.checkpoint.layout if self.history.checkpoint else []
        index = {id(entry): at for at, entry in enumerate(self.history.entries)}
        return [_make_entry(entry, placed, at=index[id(entry)]) for entry in self.find_entries(stop=self.known)]


class _Follower:
    """One history a host shows."""

    def __init__(self, backend: Backend, dialect: Dialect, shown: list[Item], *, model: str | None) -> None:
        self._backend = backend
        self._store = backend.store
        self._dialect = dialect
        self._shown = shown
        self._model = model
        self._seed = seed_chain(backend.store.tenant.key, dialect=dialect.name)
        self._chain = compute_chain(backend, dialect, shown)

    async def settle(self, thread_id: str, *, diverging: Diverging) -> str:
        """Record what is new and return the thread that ends where the history does."""
        tip = await load_tip(self._store, thread_id, seed=self._seed)
        if self._is_continued(tip):
            return await self._append(thread_id, tip, skip=tip.depth)
        views: list[_View] = []
        async for view in self._list_views(thread_id):
            if view.is_whole:
                return await self._append(thread_id, tip, skip=view.shown)
            views.append(view)
        if diverging == "fork":
            return await self._continue_in_fork(thread_id)
        best = max(views, key=lambda view: view.shown)
        path = await load_live_path(self._store, thread_id, whole=True)
        found = await find_deepest(self._store, self._chain, accept=_make_path_filter(path))
        if found and found[0].depth >= best.shown:
            return await self._roll_back(thread_id, path, after=found[0].ordinal, skip=found[0].depth)
        return await self._leave_window(thread_id, path, best)

    def _is_continued(self, tip: Tip) -> bool:
        return tip.depth == 0 or (tip.depth <= len(self._chain) and self._chain[tip.depth - 1] == tip.chain)

    async def _list_views(self, thread_id: str) -> AsyncIterator[_View]:
        """Yield how the history may look to the host: the window, then as it stood before each of the last compactions."""
        path = await load_live_path(self._store, thread_id)
        yield self._view(await load_history(self._store, path))
        checkpoint, whole = path.checkpoint, None
        for _ in range(BEHIND):
            if checkpoint is None:
                return
            whole = whole or await load_live_path(self._store, thread_id, whole=True)
            older = await load_live_path(self._store, checkpoint.thread_id, stop=checkpoint.ordinal)
            before = await load_history(self._store, older)
            later = await self._load_entries_from(whole, checkpoint.ordinal)
            yield self._view(replace(before, entries=(*before.entries, *later)))
            checkpoint = older.checkpoint

    def _view(self, history: History) -> _View:
        items = close_open_calls(history.items, dialect=self._dialect, under_way=True)
        by_item = {id(entry.item): entry for entry in history.entries}
        known = shown = 0
        while known < len(items) and shown < len(self._shown):
            step = _count_joined(items, known, self._dialect.canonical(self._shown[shown]), dialect=self._dialect)
            if step == 0:
                break
            known, shown = known + step, shown + 1
        return _View(history=history, entries=tuple(by_item.get(id(item)) for item in items), known=known, shown=shown)

    async def _load_entries_from(self, path: LivePath, start: int) -> list[WindowEntry]:
        """Return what the path holds from an ordinal on."""
        spans = [replace(span, start=max(span.start, start)) for span in reversed(path.spans) if span.stop > start]
        tail = LivePath(spans=tuple(reversed(spans)), checkpoint=None, whole=False)
        return list((await load_history(self._store, tail)).entries)

    async def _continue_in_fork(self, thread_id: str) -> str:
        """Go on in the fork of this thread that holds most of the history, or in a new one."""
        family: dict[str, bool] = {thread_id: True}
        found = await find_deepest(self._store, self._chain, accept=lambda match: self._is_descendant(match.thread_id, family))
        for match in found:
            tip = await load_tip(self._store, match.thread_id, seed=self._seed)
            if self._is_continued(tip):
                return await self._append(match.thread_id, tip, skip=tip.depth)
        parent, after = (found[0].thread_id, found[0].ordinal) if found else (thread_id, 0)
        path = await load_live_path(self._store, parent, whole=True)
        at = await self._find_next_step(path, after=after) if found else _find_beginning(path)
        begun = await prepare_fork(self._backend, path.find_thread(at - 1) or parent, at=at)
        tip = begun.tip(await load_tip(self._store, begun.thread.parent or parent, seed=self._seed, stop=at))
        return await self._append(begun.thread.id, tip, skip=tip.depth, begun=begun)

    async def _is_descendant(self, thread_id: str, family: dict[str, bool]) -> bool:
        if thread_id not in family:
            family[thread_id] = False
            parent = (await self._store.get(thread_id)).parent
            family[thread_id] = parent is not None and await self._is_descendant(parent, family)
        return family[thread_id]

    async def _roll_back(self, thread_id: str, path: LivePath, *, after: int, skip: int) -> str:
        """Take back what follows record `after` on the path, in the same append that goes on from there; 0 takes back all."""
        at = await self._find_next_step(path, after=after) if after else _find_beginning(path)
        before = await load_tip(self._store, path.find_thread(at - 1) or thread_id, seed=self._seed, stop=at)
        now = await load_tip(self._store, thread_id, seed=self._seed)
        body = encode_body(RollbackBody(turns=max(0, now.turn - before.turn)))
        record = self._record(RecordKind.ROLLBACK, body, turn=before.turn, target=at)
        return await self._append(thread_id, replace(before, next=now.next), skip=skip, before=[record])

    async def _leave_window(self, thread_id: str, path: LivePath, view: _View) -> str:
        """Go on from inside a compacted window."""
        history, known = view.history, view.known
        checkpoint = history.checkpoint_ordinal or 0
        left = next(iter(view.find_entries(known)), None)
        kept = [_get_ordinal(entry) for entry in view.find_entries(stop=known) if entry.after_cut]
        if known and left is not None and _get_ordinal(left) > checkpoint and left.after_cut:
            after = max((ordinal for ordinal in kept if ordinal < _get_ordinal(left)), default=0)
            return await self._roll_back(thread_id, path, after=max(after, checkpoint), skip=view.shown)
        if not known and not (history.checkpoint and await self._is_its_own(path)):
            return await self._roll_back(thread_id, path, after=0, skip=0)
        return await self._write_checkpoint(thread_id, view)

    async def _write_checkpoint(self, thread_id: str, view: _View) -> str:
        """Make what the host still shows of a window the window, and record what it shows beside it."""
        tip = await load_tip(self._store, thread_id, seed=self._seed)
        history = view.history
        tokens = sum(entry.tokens for entry in view.find_entries(stop=view.known))
        checkpoint = Checkpoint(
            strategy=STRATEGY,
            base=history.checkpoint_ordinal,
            cut=tip.next,
            covers=tip.depth,
            layout=view.make_layout(),
            state=msgspec.Raw(dump_ledger(read_ledger(history))),
            audit=msgspec.Raw(msgspec.json.encode(AuditReport(required=0, kept=0))),
            figures={"tokens_before": history.tokens, "tokens_after": tokens, "model_calls": 0},
            trigger="auto",
            remarks_to=tip.next,
        )
        record = self._record(RecordKind.CHECKPOINT, encode_body(checkpoint), turn=tip.turn, target=tip.next)
        return await self._append(thread_id, tip, skip=view.shown, before=[replace(record, tokens=tokens)])

    async def _is_its_own(self, path: LivePath) -> bool:
        """Whether what is shown shares anything with what the thread said lately."""
        own: set[bytes] = set()
        for span in path.spans:
            newest = await self._store.read(span, kinds={RecordKind.ITEM}, newest_first=True, limit=RECENT - len(own))
            own |= {self._dialect.canonical(Item(record.body)) for record in newest if not record.erased}
            if len(own) >= RECENT:
                break
        return any(self._dialect.canonical(item) in own for item in self._shown)

    async def _find_next_step(self, path: LivePath, *, after: int) -> int:
        """Return where the step after a record begins: a checkpoint made of what stands before it still counts there."""
        for span in reversed(path.spans):
            start = max(span.start, after + 1)
            while start < span.stop:
                page = await self._store.read(replace(span, start=start), kinds=NEXT_STEP, limit=PAGE, bodies=False)
                for record in page:
                    if record.kind is not RecordKind.NOTE or record.chain is not None:
                        return record.ordinal
                if not page:
                    break
                start = page[-1].ordinal + 1
        return path.spans[0].stop

    async def _append(
        self, thread_id: str, tip: Tip, *, skip: int, before: Sequence[NewRecord] = (), begun: ThreadStart | None = None
    ) -> str:
        redact = self._backend.redact
        new = [make_arrival(self._dialect, item, redact=redact) for item in self._shown[skip:]]
        if new or before or begun:
            await append_items(self._backend, thread_id, new, tip=tip, model=self._model, before=before, begun=begun)
        return thread_id

    def _record(self, kind: RecordKind, body: bytes, *, turn: int, target: int) -> NewRecord:
        return NewRecord(kind=kind, at_ms=self._backend.clock.now_ms(), turn=turn, tokens=0, body=body, target=target)


def _count_joined(window: Sequence[Item], start: int, canonical: bytes, *, dialect: Dialect) -> int:
    """Return how many items of the window, joined into one, are the item of that form; 0 if no number is."""
    if dialect.canonical(window[start]) == canonical:
        return 1
    for stop in range(start + 2, len(window) + 1):
        joined = dialect.arrange(window[start:stop])
        if len(joined) > 1:
            return 0
        if dialect.canonical(joined[0]) == canonical:
            return stop - start
    return 0


def _make_entry(entry: WindowEntry, placed: Sequence[LayoutEntry], *, at: int) -> LayoutEntry:
    if not entry.after_cut:
        return placed[at]
    if entry.source is None:
        raise AssertionError("what no checkpoint placed has a record")
    return KeepEntry(thread=entry.source.thread_id, ordinal=entry.source.ordinal, depth=entry.depth)


def _make_path_filter(path: LivePath) -> Accept:
    async def is_on_path(match: Found) -> bool:
        return path.find_thread(match.ordinal) == match.thread_id

    return is_on_path


def _find_beginning(path: LivePath) -> int:
    """Return the ordinal right behind a path's first record, which says what the thread is."""
    return path.spans[-1].start + 1


def _get_ordinal(entry: WindowEntry) -> int:
    return entry.source.ordinal if entry.source is not None else 0


async def record_reply(
    tk: Threadkeep,
    thread_id: str,
    items: Sequence[Mapping[str, object]],
    *,
    estimated_tokens: int,
    input_tokens: int | None,
    output_tokens: int | None,
) -> None:
    """Write down what was answered to a request estimated at `estimated_tokens`, and what the provider counted for it.

    It is not part of the window until the host shows it; the counts correct later estimates. Durable when it returns.

    Raises:
        ThreadNotFound: There is no such thread.
        InvalidItem: One of the items is not of the thread's dialect.
    """
    thread = await tk.find(thread_id)
    backend = tk.backend
    raws = [thread.dialect.parse(dict(item)).raw for item in items]
    body = ReplyBody(
        items=[msgspec.Raw(backend.redact(raw) if backend.redact else raw) for raw in raws],
        outcome="completed",
        estimated_tokens=estimated_tokens,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    await append_beside(backend, thread.id, RecordKind.REPLY, encode_body(body), tokens=output_tokens or 0)


async def fit_window(
    thread: Thread,
    *,
    model: str | Model | None = None,
    head: Head | None = None,
    phase: Phase = "pre_turn",
    to_send: bool = False,
) -> Window:
    """Return the thread's window, compacted if it reached the hard limit of `model`.

    A compaction that is already running is awaited. If one fails, the best window there is comes back with its `trouble`.

    Args:
        model: A model's name, for its limits, or a model that the compaction may also ask.
        head: What is sent beside the window; it counts against the limit.
        phase: Whether the window is sent before a turn or within one.
        to_send: Show calls without an output as aborted.

    Raises:
        CompactionStopped: A hook ended the turn.
    """
    look = partial(thread.window, head=head, model=model, to_send=to_send)
    window = await look()
    if not window.pressure.must_compact:
        return window
    asked = None if isinstance(model, str) else model
    order = replace(make_order(window, model=asked, mid_turn=phase == "mid_turn", reason="context_limit"), phase=phase)
    room = RoomMaker(
        look=look,
        compact=partial(thread.carry_out, head=head),
        upkeep_is_over=thread.upkeep_is_over,
        wait_s=thread.draft_wait_s,
    )
    return await room.fitting(order)
