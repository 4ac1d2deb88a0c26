"""The checkpoint an import writes where the source was compacted by its own program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from threadkeep.compaction import Ledger
from threadkeep.compaction.audit import AuditReport
from threadkeep.compaction.ledger import dump_ledger
from threadkeep.dialects import Dialect
from threadkeep.dialects.raw_json import read_object
from threadkeep.items import Item, ItemKind
from threadkeep.store import RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, EntryKind, KeepEntry, LayoutEntry, LiteralEntry, LivePath, Pointer
from threadkeep.threads.reader import load_checkpoint, load_history, load_live_path
from threadkeep.tokens import estimate_item

BUDGET_TOKENS = 20_000
TOKEN_BYTES = 4
NO_SUMMARY = "(no summary available)"


@dataclass(slots=True)
class Selection:
    """Takes messages newest first; `full` once no older one is looked at."""

    left_tokens: int = BUDGET_TOKENS
    full: bool = False

    def take(self, text: str) -> str:
        """Return what is kept of a message."""
        raw = text.encode("utf-8", "replace")
        tokens = -(-len(raw) // TOKEN_BYTES)
        if tokens <= self.left_tokens:
            self.left_tokens -= tokens
            self.full = self.left_tokens == 0
            return text
        self.full = True
        return shorten_middle(raw, tokens=self.left_tokens)


def shorten_middle(raw: bytes, *, tokens: int) -> str:
    """Return text with its middle left out so that the rest fits."""
    budget = tokens * TOKEN_BYTES
    left_out = -(-(len(raw) - budget) // TOKEN_BYTES)
    head = raw[: budget // 2].decode("utf-8", "ignore")
    tail = raw[len(raw) - (budget - budget // 2) :].decode("utf-8", "ignore") if budget else ""
    return f"{head}…{left_out} tokens truncated…{tail}"


def make_message(text: str) -> dict[str, Any]:
    """Return a message as Codex writes it into a compacted history."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


PAGE = 64


class Placed(NamedTuple):
    """A position of a checkpoint's layout, and what it weighs."""

    entry: LayoutEntry
    tokens: int


class _Found(NamedTuple):
    item: Item
    source: Pointer | None
    depth: int | None
    tokens: int


async def select_messages(store: ThreadStore, thread_id: str, *, dialect: Dialect, stop: int) -> list[Placed]:
    """Return what a compaction of the path before `stop` keeps of people's messages, oldest first. Reads no more than that."""
    path = await load_live_path(store, thread_id, stop=stop)
    selection = Selection()
    kept: list[Placed] = []
    async for found in _read_newest_first(store, path):
        view = dialect.view(found.item)
        if selection.full:
            break
        if view.by_person and view.kind is ItemKind.MESSAGE:
            kept.append(_place_message(found, selection, dialect))
    return kept[::-1]


def _place_message(found: _Found, selection: Selection, dialect: Dialect) -> Placed:
    texts = _list_texts(found.item)
    whole = "".join(texts)
    text = selection.take(whole)
    source = found.source
    if text == whole and len(texts) == 1 and source is not None:
        return Placed(KeepEntry(thread=source.thread_id, ordinal=source.ordinal, depth=found.depth), found.tokens)
    raw = dialect.parse(make_message(text)).raw
    place = (source.thread_id, source.ordinal) if source else (None, None)
    return Placed(LiteralEntry(item=msgspec.Raw(raw), issuer="codex", thread=place[0], ordinal=place[1]), estimate_item(raw))


def _list_texts(item: Item) -> list[str]:
    """Return the texts of a message that holds nothing else worth keeping; what is no text counts as one of them."""
    content = (read_object(item.raw) or {}).get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [str(part.get("text") or "") if isinstance(part, dict) else "" for part in parts]


async def _read_newest_first(store: ThreadStore, path: LivePath) -> AsyncIterator[_Found]:
    checkpoint = await load_checkpoint(store, path.checkpoint) if path.checkpoint else None
    cut = checkpoint.cut if checkpoint else 0
    for span in path.spans:
        stop = span.stop
        while page := await store.read(
            Span(thread_id=span.thread_id, start=max(span.start, cut), stop=stop),
            kinds={RecordKind.ITEM},
            newest_first=True,
            limit=PAGE,
        ):
            for record in page:
                yield _Found(Item(record.body), Pointer(record.thread_id, record.ordinal), record.depth, record.tokens)
            stop = page[-1].ordinal
    if checkpoint is None:
        return
    for entry in reversed((await load_history(store, path)).entries):
        if not entry.after_cut and entry.kind not in (EntryKind.STATE, EntryKind.START):
            keeps = entry.kind is EntryKind.KEEP
            yield _Found(entry.item, entry.source if keeps else None, entry.depth, entry.tokens)


STRATEGY = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCheckpoint:
    """A foreign compaction: what it put in place of what it replaced. It has no state and no audit of ours.

    `cut` is where the kept tail begins, None where nothing before the checkpoint is kept; `tokens_behind` counts that tail.
    """

    layout: tuple[Placed, ...]
    base: int | None
    cut: int | None
    covers: int
    tokens_before: int
    tokens_behind: int

    @property
    def tokens_after(self) -> int:
        return sum(tokens for _, tokens in self.layout) + self.tokens_behind

    def make_body(self, own: Pointer, *, dialect: Dialect) -> Checkpoint:
        """Return the body of its record, which will be `own`."""
        return Checkpoint(
            strategy=STRATEGY,
            base=self.base,
            cut=own.ordinal if self.cut is None else self.cut,
            covers=self.covers,
            layout=[_add_source(entry, own, dialect=dialect) for entry, _ in self.layout],
            state=msgspec.Raw(dump_ledger(Ledger())),
            audit=msgspec.Raw(msgspec.json.encode(AuditReport(required=0, kept=0))),
            figures={"tokens_before": self.tokens_before, "tokens_after": self.tokens_after, "model_calls": 0},
        )


def _add_source(entry: LayoutEntry, own: Pointer, *, dialect: Dialect) -> LayoutEntry:
    """Return a literal that holds a person's words no record has with the checkpoint itself as their source."""
    if not isinstance(entry, LiteralEntry) or entry.ordinal is not None:
        return entry
    if not dialect.view(Item(bytes(entry.item))).by_person:
        return entry
    return msgspec.structs.replace(entry, thread=own.thread_id, ordinal=own.ordinal)
