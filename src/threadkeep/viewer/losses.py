"""What a compaction lost: whether the originals can still be read, and what left the window and the state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from threadkeep.compaction import AuditReport, Ledger
from threadkeep.errors import InvalidPointer, StoreCorrupt
from threadkeep.items import digest_body
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, KeepEntry, LivePath, Pointer, StubEntry, parse_pointer
from threadkeep.threads.reader import load_live_path
from threadkeep.viewer.compactions import Opened
from threadkeep.viewer.diffs import Group, SideBySide
from threadkeep.viewer.renderer import counted, number, record_url

POINTERS_SHOWN = 6
# The groups of entries that no longer stand in the state, in the order they are told.
GONE = ("withdrawn", "superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Some words of an answer; `href` is where they lead."""

    text: str
    strong: bool = False
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One question with its answer; `bad` says that something is not as it must be."""

    question: str
    words: tuple[Words, ...]
    bad: bool = False

    @property
    def text(self) -> str:
        return "".join(words.text for words in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where on its page, and on its page filtered, a compaction shows what an answer speaks of."""

    left: str
    shortened: str


def verdict_of(
    archive: Archive, audit: AuditReport, windows: SideBySide, groups: Iterable[Group], *, places: Places
) -> tuple[Answered, ...]:
    """Return the answers, from what was found."""
    counts = {group.name: len(group.entries) for group in groups}
    return (_record(archive), _demanded(audit), _window(windows, places), _state(counts))


def _record(archive: Archive) -> Answered:
    bad = archive.readable < archive.items or archive.resolving < archive.pointers
    words: list[Words] = []
    if archive.readable == archive.items:
        words += [Words(text="nothing", strong=True), Words(text=f": {_all(archive.items, 'item')} it replaced can be read back")]
    else:
        words += [Words(text=f"{number(archive.readable)} of {counted(archive.items, 'item')}", strong=True)]
        words += [Words(text=" it replaced can be read back")]
        words += _named("; erased on request: ", archive.erased) + _named("; damaged or missing: ", archive.lost)
    if archive.resolving == archive.pointers:
        words.append(
            Words(text=f"; {_all(archive.pointers, 'pointer')} {'leads' if archive.pointers == 1 else 'lead'} to a record")
        )
    else:
        words += [
            Words(text="; "),
            Words(text=f"{number(archive.resolving)} of {counted(archive.pointers, 'pointer')}", strong=True),
        ]
        words += [Words(text=" lead to a record")]
        words += _named("; to what was erased: ", archive.to_erased) + _named("; to nothing: ", archive.to_nothing)
    return Answered(question="From the record", words=tuple(words), bad=bad)


def _all(many: int, noun: str) -> str:
    return f"the one {noun}" if many == 1 else f"all {counted(many, noun)}"


def _named(before: str, pointers: Sequence[Pointer]) -> list[Words]:
    if not pointers:
        return []
    words = [Words(text=before)]
    for at, pointer in enumerate(pointers[:POINTERS_SHOWN]):
        words += [Words(text=" ")] if at else []
        words.append(Words(text=f"#{pointer.ordinal}", href=record_url(pointer)))
    more = len(pointers) - POINTERS_SHOWN
    return [*words, Words(text=f" and {number(more)} more")] if more > 0 else words


def _demanded(audit: AuditReport) -> Answered:
    question = "From what people demanded"
    if not audit.required:
        return Answered(question=question, words=(Words(text="nothing was required of this span"),))
    words = [
        Words(text=f"{number(audit.kept)} of {number(audit.required)}", strong=True),
        Words(text=" things the audit required stand in the window"),
    ]
    missing = audit.required - audit.kept
    if missing > 0:
        words += [Words(text=", "), Words(text=f"{number(missing)} left to recall for want of room", strong=True)]
    if audit.repaired:
        words += [Words(text="; "), Words(text=f"{counted(len(audit.repaired), 'false line')} put right", href="#audit")]
    return Answered(question=question, words=tuple(words), bad=missing > 0)


def _window(windows: SideBySide, places: Places) -> Answered:
    words = [
        Words(text=counted(windows.left_items, "item"), strong=True, href=places.left),
        Words(text=f", {number(windows.left_tokens)} tokens", href=places.left),
    ]
    if windows.left:
        words.append(Words(text=f": {', '.join(windows.left)}"))
    if windows.shortened:
        one_line = f"{counted(windows.shortened, 'output')} now one line each"
        words += [Words(text="; "), Words(text=one_line, href=places.shortened)]
    return Answered(question="From the window", words=tuple(words))


def _state(counts: dict[str, int]) -> Answered:
    words: list[Words] = []
    for name in GONE:
        if counts.get(name):
            words += [Words(text=", ")] if words else []
            words += [Words(text=f"{number(counts[name])} {name}", strong=True, href=f"#g-{name}")]
    words = words or [Words(text="nothing that was said", strong=True)]
    return Answered(question="From the state", words=tuple(words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What was found of the items a compaction replaced, and of the records its state, stubs and audit point at.

    `erased` were taken out on request, `lost` are not there or not the bytes that were recorded.
    """

    items: int
    pointers: int
    erased: tuple[Pointer, ...] = ()
    lost: tuple[Pointer, ...] = ()
    to_erased: tuple[Pointer, ...] = ()
    to_nothing: tuple[Pointer, ...] = ()

    @property
    def readable(self) -> int:
        """How many of the items can be read back byte for byte."""
        return self.items - len(self.erased) - len(self.lost)

    @property
    def resolving(self) -> int:
        """How many of the pointers lead to their record."""
        return self.pointers - len(self.to_erased) - len(self.to_nothing)


async def archive_of(store: ThreadStore, opened: Opened) -> Archive:
    """Look at everything a compaction replaced and points at, in the store as it is now."""
    replaced = await _replaced(store, opened)
    named = _find_pointers(opened, await load_live_path(store, opened.record.thread_id, whole=True))
    items = await _found(store, replaced, bodies=True)
    records = await _found(store, named, bodies=False)
    return Archive(
        items=len(replaced),
        pointers=len(named),
        erased=tuple(at for at in replaced if at in items and items[at].erased),
        lost=tuple(at for at in replaced if at not in items or not _is_whole(items[at])),
        to_erased=tuple(at for at in named if at in records and records[at].erased),
        to_nothing=tuple(at for at in named if at not in records),
    )


async def _replaced(store: ThreadStore, opened: Opened) -> list[Pointer]:
    """Return the items that made up the window before, but for those behind the cut, which stay as they are."""
    path = await load_live_path(store, opened.record.thread_id, stop=opened.record.ordinal)
    found = _laid_out(opened.before.checkpoint) if opened.before.checkpoint is not None else set()
    for span in path.spans:
        before = Span(thread_id=span.thread_id, start=span.start, stop=min(span.stop, opened.made.cut))
        records = await store.read(before, kinds={RecordKind.ITEM}, bodies=False) if before.start < before.stop else []
        found.update(Pointer(record.thread_id, record.ordinal) for record in records)
    return sorted(found)


def _find_pointers(opened: Opened, path: LivePath) -> list[Pointer]:
    """Return what the compaction points at: kept and shortened records, sources of its entries, findings of its audit."""
    named = _laid_out(opened.made) | _sources(opened.later)
    for finding in (*opened.audit.repaired, *opened.audit.invented):
        try:
            pointer = parse_pointer(finding.pointer or "", within=opened.record.thread_id)
        except InvalidPointer:
            continue
        # A bare #12 may lie in what the thread was forked from.
        named.add(Pointer(path.find_thread(pointer.ordinal) or pointer.thread_id, pointer.ordinal))
    return sorted(named)


def _laid_out(made: Checkpoint) -> set[Pointer]:
    return {Pointer(entry.thread, entry.ordinal) for entry in made.layout if isinstance(entry, KeepEntry | StubEntry)}


def _sources(ledger: Ledger) -> set[Pointer]:
    claims = {entry.claim.source for entry in ledger.entries if entry.claim is not None}
    return {source for entry in ledger.entries for source in entry.sources} | claims


async def _found(store: ThreadStore, pointers: Iterable[Pointer], *, bodies: bool) -> dict[Pointer, Record]:
    """Return the records that pointers name; one that the store cannot read is not among them, and hides no other."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for pointer in pointers:
        wanted[pointer.thread_id].append(pointer.ordinal)
    found: dict[Pointer, Record] = {}
    for thread_id, ordinals in wanted.items():
        try:
            records = await _read(store, thread_id, ordinals, bodies=bodies)
        except StoreCorrupt:
            records = await _one_by_one(store, thread_id, ordinals)
        found.update({Pointer(thread_id, record.ordinal): record for record in records})
    return found


async def _read(store: ThreadStore, thread_id: str, ordinals: list[int], *, bodies: bool) -> list[Record]:
    span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
    return await store.read(span, ordinals=ordinals, bodies=bodies)


async def _one_by_one(store: ThreadStore, thread_id: str, ordinals: list[int]) -> list[Record]:
    records: list[Record] = []
    for ordinal in ordinals:
        try:
            records += await _read(store, thread_id, [ordinal], bodies=True)
        except StoreCorrupt:
            continue
    return records


def _is_whole(record: Record) -> bool:
    return record.erased or digest_body(record.body) == record.digest
