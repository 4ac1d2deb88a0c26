"""Reads a thread from a store: live path, history, checkpoints, turns, metadata."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from threadkeep.dialects import find_dialect
from threadkeep.errors import StoreCorrupt
from threadkeep.items import Item
from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import (
    Checkpoint,
    ContextBody,
    History,
    KeepEntry,
    LivePath,
    MetaBody,
    PathWalk,
    Pointer,
    Remark,
    ReplyBody,
    StartBody,
    StubEntry,
    Tip,
    assemble,
    decode_body,
    is_failed_attempt,
    is_remark,
    read_remark,
)
from threadkeep.threads.erasure_notes import fill_erased
from threadkeep.threads.path import JUMPS, LANDMARKS
from threadkeep.tokens import Calibration

PAGE = 16
# Other context records, of hosts' sections and of SessionStart hooks, stand among those of requests.
CONTEXTS = 8
B = TypeVar("B", bound=msgspec.Struct)
CHAINED = frozenset({RecordKind.ITEM, RecordKind.NOTE})
# Records that set the number of the current turn; others may be written late, with an older number.
NUMBERING = frozenset({RecordKind.META, RecordKind.TURN, RecordKind.ROLLBACK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn's number and the ordinal where it begins."""

    number: int
    ordinal: int


async def load_live_path(store: ThreadStore, thread_id: str, *, stop: int | None = None, whole: bool = False) -> LivePath:
    """Return the live path of a thread before ordinal `stop` (its end, if None).

    Reads a page of landmarks per fork crossed, however long the thread is. With `whole` the path reaches back to the first
    record and names no checkpoint.
    """
    row = await store.get(thread_id)
    walk = PathWalk(thread_id, stop=row.next if stop is None else stop, whole=whole)
    while (ask := walk.ask) is not None:
        if ask.thread_id != row.id:
            row = await store.get(ask.thread_id)
        span = Span(thread_id=ask.thread_id, start=row.start, stop=ask.stop)
        kinds = JUMPS if whole else LANDMARKS
        walk.feed(row, await store.read(span, kinds=kinds, newest_first=True, limit=PAGE, bodies=False))
    return walk.path


async def iterate_records(
    store: ThreadStore,
    spans: Iterable[Span],
    *,
    kinds: Collection[RecordKind],
    newest_first: bool = False,
    bodies: bool = True,
    page: int = PAGE,
) -> AsyncIterator[Record]:
    """Yield the records of spans, one span after the other, read a page at a time."""
    for span in spans:
        while span.start < span.stop:
            found = await store.read(span, kinds=kinds, newest_first=newest_first, limit=page, bodies=bodies)
            for record in found:
                yield record
            if len(found) < page:
                break
            span = replace(span, stop=found[-1].ordinal) if newest_first else replace(span, start=found[-1].ordinal + 1)


async def load_history(store: ThreadStore, path: LivePath) -> History:
    """Return the window of a live path, and notes and pins since its checkpoint. Reads only what the window holds."""
    checkpoint = await load_checkpoint(store, path.checkpoint) if path.checkpoint else None
    kept = await _load_kept(store, checkpoint) if checkpoint else {}
    after: list[Record] = []
    for span in reversed(path.spans):
        after.extend(await store.read(span, kinds={RecordKind.ITEM}))
    if checkpoint:
        after = [record for record in after if record.ordinal >= checkpoint.cut]
    if any(record.erased for record in (*kept.values(), *after)):
        row = await store.get(path.spans[0].thread_id)
        shown = fill_erased([*kept.values(), *after], dialect=find_dialect(row.dialect), begins=checkpoint is None)
        kept, after = dict(zip(kept, shown, strict=False)), shown[len(kept) :]
    ordinal = path.checkpoint.ordinal if path.checkpoint else None
    start = await load_start(store, path, checkpoint=ordinal) if checkpoint and checkpoint.start_due else None
    history = assemble(checkpoint=checkpoint, checkpoint_ordinal=ordinal, kept=kept, after=after, start=start or ())
    remarks = await _load_remarks(store, path, checkpoint)
    return replace(history, remarks=remarks) if remarks else history


async def load_start(store: ThreadStore, path: LivePath, *, checkpoint: int | None) -> tuple[Item, ...] | None:
    """Return the items SessionStart hooks added for a checkpoint; None if they have not run yet."""
    if checkpoint is None:
        return None
    spans = [replace(span, start=max(span.start, checkpoint)) for span in reversed(path.spans)]
    async for record in iterate_records(store, spans, kinds={RecordKind.CONTEXT}):
        body = read_body(record, StartBody)
        if body is not None and body.started == checkpoint:
            return tuple(Item(bytes(raw)) for raw in body.start)
    return None


async def _load_remarks(store: ThreadStore, path: LivePath, checkpoint: Checkpoint | None) -> tuple[Remark, ...]:
    """Return notes and pins of a path that are not yet in its checkpoint's state, oldest first."""
    since = checkpoint.remarks_to or 0 if checkpoint else 0
    found: list[Record] = []
    for span in reversed(path.spans):
        later = Span(thread_id=span.thread_id, start=max(span.start, since), stop=span.stop)
        notes = await store.read(later, kinds={RecordKind.NOTE}, bodies=False) if later.start < later.stop else []
        ordinals = {note.ordinal for note in notes if is_remark(note)}
        found += await store.read(later, ordinals=ordinals) if ordinals else []
    if not found:
        return ()
    seen: dict[int | None, Checkpoint | None] = {0: None}
    if path.checkpoint is not None:
        seen[path.checkpoint.ordinal] = checkpoint
    for ordinal in {record.target for record in found} - seen.keys():
        seen[ordinal] = await _load_checkpoint_at(store, path, ordinal) if ordinal else None
    remarks = (read_remark(record, seen=seen[record.target]) for record in found)
    return tuple(remark for remark in remarks if remark is not None)


async def _load_checkpoint_at(store: ThreadStore, path: LivePath, ordinal: int) -> Checkpoint | None:
    """Return a checkpoint of a path, even a cancelled one; None if it cannot be read."""
    whole = await load_live_path(store, path.spans[0].thread_id, stop=path.spans[0].stop, whole=True)
    thread_id = whole.find_thread(ordinal)
    span = Span(thread_id=thread_id or "", start=ordinal, stop=ordinal + 1)
    made = await store.read(span, kinds={RecordKind.CHECKPOINT}) if thread_id else []
    return read_body(made[0], Checkpoint) if made else None


async def load_tip(store: ThreadStore, thread_id: str, *, seed: bytes, stop: int | None = None) -> Tip:
    """Return the tip of a thread before ordinal `stop` (its end, if None); `seed` is the chain's first link."""
    row = await store.get(thread_id)
    end = row.next if stop is None else stop
    path = await load_live_path(store, thread_id, stop=end)
    last = await _find_newest_chained(store, path)
    if last is None and path.rewritten is None:
        last = await _find_newest_chained(store, await load_live_path(store, thread_id, stop=end, whole=True))
    return Tip(
        next=end,
        turn=await load_current_turn(store, row, stop=end),
        depth=last.depth or 0 if last else 0,
        chain=last.chain or seed if last else seed,
    )


async def load_current_turn(store: ThreadStore, row: ThreadRow, *, stop: int) -> int:
    """Return the number of the turn a thread is in before ordinal `stop`."""
    own = Span(thread_id=row.id, start=row.start, stop=stop)
    numbered = await store.read(own, kinds=NUMBERING, newest_first=True, limit=1, bodies=False)
    return numbered[0].turn if numbered else 0


async def find_turn(store: ThreadStore, path: LivePath, *, number: int) -> Turn | None:
    """Return turn `number` of a whole path; None if it has no such turn."""
    for span in path.spans:
        for record in await store.read(span, kinds={RecordKind.TURN}, turn=number, newest_first=True, limit=1, bodies=False):
            return Turn(number=record.turn, ordinal=record.ordinal)
    return None


async def find_turn_back(store: ThreadStore, path: LivePath, *, turns: int) -> Turn | None:
    """Return the turn that begins `turns` turns before the end of a whole path; its first one, if it has fewer."""
    found = await load_newest_turns(store, path, limit=turns)
    return found[-1] if found else None


async def load_newest_turns(store: ThreadStore, path: LivePath, *, limit: int) -> list[Turn]:
    """Return up to `limit` turns of a whole path, newest first."""
    found: list[Turn] = []
    for span in path.spans:
        if len(found) == limit:
            break
        more = await store.read(span, kinds={RecordKind.TURN}, newest_first=True, limit=limit - len(found), bodies=False)
        found.extend(Turn(number=record.turn, ordinal=record.ordinal) for record in more)
    return found


async def find_last_usage(store: ThreadStore, path: LivePath, checkpoint: Checkpoint | None) -> Calibration | None:
    """Return the newest reply's counted and estimated tokens, else those stored in the checkpoint."""
    for span in path.spans:
        for record in await load_replies(store, span, most=1, newest_first=True):
            reply = read_body(record, ReplyBody)
            if reply is not None and reply.input_tokens:
                return Calibration(estimated=reply.estimated_tokens, counted=reply.input_tokens)
    if checkpoint is None or "usage_counted" not in checkpoint.figures:
        return None
    return Calibration(estimated=checkpoint.figures["usage_estimated"], counted=checkpoint.figures["usage_counted"])


async def load_context_body(store: ThreadStore, thread_id: str, *, stop: int) -> ContextBody | None:
    """Return the newest `context` record before ordinal `stop`, here or, in a fork, where it came from."""
    name: str | None = thread_id
    while name is not None:
        row = await store.get(name)
        span = Span(thread_id=name, start=row.start, stop=stop)
        for record in await store.read(span, kinds={RecordKind.CONTEXT}, newest_first=True, limit=CONTEXTS):
            body = read_body(record, ContextBody)
            if body is not None:
                return body
        name, stop = row.parent, row.start
    return None


async def load_replies(store: ThreadStore, span: Span, *, most: int, newest_first: bool = False) -> list[Record]:
    """Return the first replies of a span, or the last, without those of failed compactions."""
    found: list[Record] = []
    async for record in iterate_records(store, [span], kinds={RecordKind.REPLY}, newest_first=newest_first, page=most):
        if not is_failed_attempt(record):
            found.append(record)
        if len(found) == most:
            break
    return found


def read_body(record: Record, form: type[B]) -> B | None:
    """Return a record's body as `form`; None if it was erased or is damaged, which `verify` reports."""
    if record.erased:
        return None
    try:
        return decode_body(record.body, form)
    except msgspec.MsgspecError:
        return None


async def load_checkpoint(store: ThreadStore, landmark: Record) -> Checkpoint:
    """Return the checkpoint of a record that was read without its body."""
    span = Span(thread_id=landmark.thread_id, start=landmark.ordinal, stop=landmark.ordinal + 1)
    try:
        return decode_body((await store.read(span))[0].body, Checkpoint)
    except (IndexError, msgspec.MsgspecError) as error:
        raise StoreCorrupt(landmark.thread_id, f"checkpoint #{landmark.ordinal} cannot be read") from error


async def _load_kept(store: ThreadStore, checkpoint: Checkpoint) -> dict[Pointer, Record]:
    placed = (entry for entry in checkpoint.layout if isinstance(entry, KeepEntry | StubEntry))
    return await load_records(store, (Pointer(entry.thread, entry.ordinal) for entry in placed))


async def load_records(
    store: ThreadStore, places: Iterable[Pointer], *, kinds: Collection[RecordKind] | None = None, bodies: bool = True
) -> dict[Pointer, Record]:
    """Return the records at `places`, of `kinds` if given, with one read per thread."""
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for place in places:
        wanted[place.thread_id].add(place.ordinal)
    found: dict[Pointer, Record] = {}
    for thread_id, ordinals in wanted.items():
        span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
        for record in await store.read(span, ordinals=ordinals, kinds=kinds, bodies=bodies):
            found[Pointer(thread_id, record.ordinal)] = record
    return found


async def _find_newest_chained(store: ThreadStore, path: LivePath) -> Record | None:
    async for record in iterate_records(store, path.spans, kinds=CHAINED, newest_first=True, bodies=False):
        if record.chain is not None:
            return record
    return None


async def load_metadata(store: ThreadStore, thread_id: str) -> MetaBody:
    """Return a thread's newest metadata: title, archived, spawning thread, memory pin."""
    row = await store.get(thread_id)
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    for record in await store.read(own, kinds={RecordKind.META}, newest_first=True, limit=1):
        if (known := read_body(record, MetaBody)) is not None:
            return known
    return MetaBody(dialect=row.dialect, parent=row.parent)
