"""Exports threads: as a Codex rollout, JSON lines, a Markdown document, or a provider's list."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from enum import StrEnum

import msgspec

from threadkeep.client.thread import Thread
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import DIALECTS, RESPONSES, Dialect, find_dialect
from threadkeep.errors import CannotExport
from threadkeep.items import Item, ItemKind, Role, View
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, ContextBody, EntryKind, LivePath, TurnBody
from threadkeep.threads.erasure_notes import fill_erased
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.reader import load_history, load_live_path, load_metadata, read_body
from threadkeep.transfer.codex_rollouts import (
    RolloutSession,
    find_working_folder,
    make_session_id,
    write_compacted,
    write_event,
    write_item,
    write_meta,
    write_note,
)
from threadkeep.transfer.json_rows import Row, get_text, join_lines, parse_row

_ticks = re.compile(r"`{3,}")


def render_heading(title: str) -> str:
    return f"# {_join_lines(title) or 'Untitled'}\n"


def render_turn_heading(number: int) -> str:
    return f"\n## Turn {number}\n"


def render_item(view: View) -> str:
    """Render an item as Markdown; tool input and output go into fences that their text cannot close."""
    match view.kind:
        case ItemKind.MESSAGE:
            return f"\n**{_name_speaker(view)}**{_render_images(view)}\n\n{view.text.strip()}\n"
        case ItemKind.CALL:
            return f"\n**call** `{_join_lines(view.tool or '')}`\n\n{_fence(view.text)}"
        case ItemKind.OUTPUT:
            return f"\n**output**{_render_images(view)}\n\n{_fence(view.text)}" + (
                f"\n**user**\n\n{view.said}\n" if view.said else ""
            )
        case ItemKind.REASONING:
            return f"\n*reasoning*\n\n{_quote(view.text)}\n" if view.text.strip() else ""
        case ItemKind.OPAQUE:
            return "\n*(an item only its provider can read)*\n"


def render_checkpoint(*, tokens_before: int, tokens_after: int) -> str:
    return f"\n---\n\n*compacted here: {tokens_before:,} → {tokens_after:,} tokens*\n\n---\n"


def _name_speaker(view: View) -> str:
    if view.role is Role.USER and not view.by_person:
        return "host"
    return view.role.value


def _render_images(view: View) -> str:
    return f" *({view.images} image{'s' if view.images > 1 else ''})*" if view.images else ""


def _fence(text: str) -> str:
    longest = max((len(match[0]) for match in _ticks.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())


def _join_lines(text: str) -> str:
    return " ".join(text.split())


PAGE = 256
FIRST_NOTES = 8
CODEX_DIALECT = RESPONSES.name


class ExportFormat(StrEnum):
    """Files that a thread of more than one dialect, or another program, can use."""

    CODEX = "codex"
    JSONL = "jsonl"
    MARKDOWN = "markdown"


EXPORT_FORMATS: tuple[str, ...] = (*ExportFormat, *DIALECTS)


async def export_thread(backend: Backend, thread: Thread, form: str) -> AsyncIterator[bytes]:
    """Yield the lines of an export, each with its line end.

    `jsonl` has every item of the live path, compacted or not; a dialect's name exports the window as one JSON list.

    Raises:
        CannotExport: The thread has another dialect.
    """
    match form:
        case ExportFormat.CODEX:
            if thread.dialect.name != CODEX_DIALECT:
                raise CannotExport(thread.id, form=form, dialect=thread.dialect.name)
            lines = _export_codex(backend, thread)
        case ExportFormat.JSONL:
            lines = _export_items(backend, thread)
        case ExportFormat.MARKDOWN:
            lines = _export_document(backend, thread)
        case _:
            if thread.dialect.name != form:
                raise CannotExport(thread.id, form=form, dialect=thread.dialect.name)
            lines = _export_window(thread)
    async for line in lines:
        yield line + b"\n"


async def load_codex_session(backend: Backend, thread: Thread) -> RolloutSession:
    """Return the session of an exported rollout: from the imported rollout, else from the records."""
    store = backend.store
    path = await load_live_path(store, thread.id, whole=True)
    history = await load_history(store, await load_live_path(store, thread.id))
    newest = await anext(_read_newest(store, path, RecordKind.ITEM, bodies=False), None)
    first = await store.read(path.spans[-1], limit=1, bodies=False)
    at_ms = newest.at_ms if newest else first[0].at_ms
    seed = b"\0".join((newest.chain or b"" if newest else b"", *(item.raw for item in history.items)))
    meta = await _find_session_meta(store, path)
    known = get_text(meta, "cwd") if meta else ""
    cwd = known or find_working_folder([thread.dialect.view(item).text for item in history.items]) or "/"
    instructions = None if meta else await _find_instructions(store, path)
    session = RolloutSession(id=make_session_id(seed, at_ms=at_ms), at_ms=at_ms, meta=meta, cwd=cwd)
    return replace(session, instructions=instructions)


async def _export_codex(backend: Backend, thread: Thread) -> AsyncIterator[bytes]:
    session = await load_codex_session(backend, thread)
    yield write_meta(session)
    path = await load_live_path(backend.store, thread.id, whole=True)
    pending = await _find_cuts(backend.store, path, newest=(await load_live_path(backend.store, thread.id)).checkpoint)
    async for record in _read_records(backend.store, path):
        if is_rewrite_mark(record) and not any(cut.target == record.ordinal for cut in pending):
            yield write_compacted([], text="", at_ms=record.at_ms)
        while pending and record.ordinal >= (pending[0].target or 0):
            yield await _write_cut(backend.store, thread.dialect, pending.pop(0))
        for line in _write_record(record, thread.dialect, events=session.meta is None):
            yield line
    for cut in pending:
        yield await _write_cut(backend.store, thread.dialect, cut)


def _write_record(record: Record, dialect: Dialect, *, events: bool) -> Iterator[bytes]:
    """Yield the lines of an item or a note; `events` adds what Codex shows people for a message."""
    if record.erased:
        return
    if record.kind is RecordKind.ITEM:
        yield write_item(Item(record.body), at_ms=record.at_ms)
        event = write_event(dialect.view(Item(record.body)), at_ms=record.at_ms) if events else None
    else:
        event = write_note(record.body) if record.kind is RecordKind.NOTE and record.chain is None else None
    if event:
        yield event


async def _write_cut(store: ThreadStore, dialect: Dialect, record: Record) -> bytes:
    # Without spans, the history is the checkpoint's layout.
    placed = await load_history(store, LivePath(spans=(), checkpoint=record, whole=False))
    text = next((dialect.view(entry.item).text for entry in placed.entries if entry.kind is EntryKind.STATE), "")
    return write_compacted(placed.items, text=text, at_ms=record.at_ms)


async def _find_cuts(store: ThreadStore, path: LivePath, *, newest: Record | None) -> list[Record]:
    """Return the checkpoints to write, in the order of their cuts, without those that a later one covers."""
    if newest is None:
        return []
    kinds = {RecordKind.CHECKPOINT, RecordKind.UNDO}
    marks = [record for span in path.spans for record in await store.read(span, kinds=kinds, newest_first=True, bodies=False)]
    undone = {record.target for record in marks if record.kind is RecordKind.UNDO}
    found: list[Record] = []
    for record in marks:
        if record.kind is not RecordKind.CHECKPOINT or record.ordinal in undone or record.target is None:
            continue
        if not found or record.target <= (found[-1].target or 0):
            found.append(record)
    return found[::-1]


async def _read_records(store: ThreadStore, path: LivePath) -> AsyncIterator[Record]:
    """Yield the records of a path, oldest first, with placeholders for erased halves of calls."""
    stand_ins = await _load_placeholders(store, path)
    for span in reversed(path.spans):
        start = span.start
        while start < span.stop:
            stop = min(start + PAGE, span.stop)
            for record in await store.read(Span(thread_id=span.thread_id, start=start, stop=stop)):
                yield stand_ins.get((record.thread_id, record.ordinal), record)
            start = stop


async def _load_placeholders(store: ThreadStore, path: LivePath) -> dict[tuple[str, int], Record]:
    """Return what stands in for erased halves of calls, by place; bodies are read only if something was erased."""
    items = _read_newest(store, path, RecordKind.ITEM, bodies=False)
    if not [record async for record in items if record.erased]:
        return {}
    records = [record async for record in _read_newest(store, path, RecordKind.ITEM)]
    dialect = find_dialect((await store.get(path.spans[0].thread_id)).dialect)
    filled = fill_erased(records[::-1], dialect=dialect, begins=True)
    return {(record.thread_id, record.ordinal): record for record in filled}


async def _read_newest(store: ThreadStore, path: LivePath, kind: RecordKind, *, bodies: bool = True) -> AsyncIterator[Record]:
    """Yield the records of one kind, newest first."""
    for span in path.spans:
        stop = span.stop
        while page := await store.read(replace(span, stop=stop), kinds={kind}, newest_first=True, limit=PAGE, bodies=bodies):
            for record in page:
                yield record
            stop = page[-1].ordinal


async def _export_items(backend: Backend, thread: Thread) -> AsyncIterator[bytes]:
    path = await load_live_path(backend.store, thread.id, whole=True)
    async for record in _read_records(backend.store, path):
        if record.kind is RecordKind.ITEM and not record.erased:
            yield join_lines(record.body)


async def _export_window(thread: Thread) -> AsyncIterator[bytes]:
    yield b"["
    items = (await thread.history()).items
    for index, item in enumerate(items):
        yield item.raw + (b"," if index + 1 < len(items) else b"")
    yield b"]"


async def _export_document(backend: Backend, thread: Thread) -> AsyncIterator[bytes]:
    path = await load_live_path(backend.store, thread.id, whole=True)
    title = (await load_metadata(backend.store, thread.id)).title
    titled = False
    async for record in _read_records(backend.store, path):
        text = ""
        if not titled and (title or record.kind is RecordKind.TURN):
            opened = read_body(record, TurnBody) if record.kind is RecordKind.TURN else None
            yield render_heading(title or (opened.preview if opened else "")).encode()
            titled = True
        if record.kind is RecordKind.TURN:
            text = render_turn_heading(record.turn)
        elif record.kind is RecordKind.ITEM and not record.erased:
            text = render_item(thread.dialect.view(Item(record.body)))
        elif record.kind is RecordKind.CHECKPOINT and (made := read_body(record, Checkpoint)) is not None:
            before, after = (made.figures.get(name, 0) for name in ("tokens_before", "tokens_after"))
            text = render_checkpoint(tokens_before=before, tokens_after=after)
        if text:
            yield text.rstrip("\n").encode("utf-8", "replace")


async def _find_session_meta(store: ThreadStore, path: LivePath) -> Row | None:
    """Return the payload of the newest imported `session_meta`."""
    for span in path.spans:
        for record in await store.read(span, kinds={RecordKind.NOTE}, limit=FIRST_NOTES):
            row = parse_row(record.body)
            meta = parse_row(row.get("payload", b"null")) if row is not None and get_text(row, "type") == "session_meta" else None
            if meta is not None:
                return meta
    return None


async def _find_instructions(store: ThreadStore, path: LivePath) -> str | None:
    """Return the newest instructions that a gateway recorded."""
    async for record in _read_newest(store, path, RecordKind.CONTEXT):
        context = read_body(record, ContextBody)
        raw = context.fields.get("instructions") if context else None
        if raw is not None:
            value = msgspec.json.decode(raw)
            return value if isinstance(value, str) else None
    return None
