"""What a compaction lost: from the record, from the audit's demands, from the window, and from the state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from threadkeep.compaction import AuditReport
from threadkeep.errors import InvalidPointer, StoreCorrupt
from threadkeep.items import digest_body
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, KeepEntry, LivePath, Pointer, StubEntry, parse_pointer
from threadkeep.threads.reader import load_live_path
from threadkeep.viewer.compactions import OpenedCompaction
from threadkeep.viewer.diffs import Group, WindowDiff
from threadkeep.viewer.renderer import format_count, format_number, link_record

POINTERS_SHOWN = 6
# The groups of entries that are no longer in the state.
RETIRED = ("withdrawn", "superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Originals:
    """What the store still holds of the items a compaction replaced, and of the records its state, stubs and audit point to.

    Attributes:
        erased: Replaced items that were erased on request.
        lost: Replaced items that are missing, or whose bytes are not those recorded.
        to_erased: Pointers to erased records.
        to_nothing: Pointers to no record.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Some words of an answer, with the address they link to."""

    text: str
    strong: bool = False
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One question and its answer; `is_bad` says that something is wrong."""

    question: str
    phrases: tuple[Phrase, ...]
    is_bad: bool = False

    @property
    def text(self) -> str:
        return "".join(phrase.text for phrase in self.phrases)


async def check_originals(store: ThreadStore, opened: OpenedCompaction) -> Originals:
    """Look up everything a compaction replaced and points to, in the store as it is now."""
    replaced = await _list_replaced(store, opened)
    named = _list_pointers(opened, await load_live_path(store, opened.record.thread_id, whole=True))
    items = await _read_records(store, replaced, bodies=True)
    records = await _read_records(store, named, bodies=False)
    return Originals(
        items=len(replaced),
        pointers=len(named),
        erased=tuple(at for at in replaced if at in items and items[at].erased),
        lost=tuple(at for at in replaced if at not in items or not _is_intact(items[at])),
        to_erased=tuple(at for at in named if at in records and records[at].erased),
        to_nothing=tuple(at for at in named if at not in records),
    )


async def _list_replaced(store: ThreadStore, opened: OpenedCompaction) -> list[Pointer]:
    """Return the items of the window before; those behind the cut stay as they are and are left out."""
    path = await load_live_path(store, opened.record.thread_id, stop=opened.record.ordinal)
    found = _list_kept(opened.before.checkpoint) if opened.before.checkpoint is not None else set()
    for span in path.spans:
        before = Span(thread_id=span.thread_id, start=span.start, stop=min(span.stop, opened.made.cut))
        records = await store.read(before, kinds={RecordKind.ITEM}, bodies=False) if before.start < before.stop else []
        found.update(Pointer(record.thread_id, record.ordinal) for record in records)
    return sorted(found)


def _list_pointers(opened: OpenedCompaction, path: LivePath) -> list[Pointer]:
    """Return what the compaction points to: kept and shortened records, sources of its entries, findings of its audit."""
    named = _list_kept(opened.made)
    for entry in opened.ledger_after.entries:
        named |= {*entry.sources, *((entry.claim.source,) if entry.claim is not None else ())}
    for finding in (*opened.audit.repaired, *opened.audit.invented):
        try:
            pointer = parse_pointer(finding.pointer or "", within=opened.record.thread_id)
        except InvalidPointer:
            continue
        # A bare #12 may be a record of the thread this one was forked from.
        named.add(Pointer(path.find_thread(pointer.ordinal) or pointer.thread_id, pointer.ordinal))
    return sorted(named)


def _list_kept(made: Checkpoint) -> set[Pointer]:
    return {Pointer(entry.thread, entry.ordinal) for entry in made.layout if isinstance(entry, KeepEntry | StubEntry)}


async def _read_records(store: ThreadStore, pointers: Iterable[Pointer], *, bodies: bool) -> dict[Pointer, Record]:
    """Return the records that pointers name; a record that cannot be read is left out and hides no other."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for pointer in pointers:
        wanted[pointer.thread_id].append(pointer.ordinal)
    found: dict[Pointer, Record] = {}
    for thread_id, ordinals in wanted.items():
        try:
            records = await _read(store, thread_id, ordinals, bodies=bodies)
        except StoreCorrupt:
            records = []
            for ordinal in ordinals:
                try:
                    records += await _read(store, thread_id, [ordinal], bodies=True)
                except StoreCorrupt:
                    continue
        found.update({Pointer(thread_id, record.ordinal): record for record in records})
    return found


async def _read(store: ThreadStore, thread_id: str, ordinals: list[int], *, bodies: bool) -> list[Record]:
    span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
    return await store.read(span, ordinals=ordinals, bodies=bodies)


def _is_intact(record: Record) -> bool:
    return record.erased or digest_body(record.body) == record.digest


def describe_losses(
    originals: Originals,
    audit: AuditReport,
    windows: WindowDiff,
    groups: Iterable[Group],
    *,
    page: str,
    compared_with: int | None = None,
) -> tuple[Loss, ...]:
    """Return the four answers; `page` is the address of the compaction's page."""
    counts = {group.name: len(group.entries) for group in groups}
    since = f"&from={compared_with}" if compared_with is not None else ""
    left, shortened = (f"{page}?fate={fate}{since}#windows" for fate in ("left", "shortened"))
    return (
        _describe_record_loss(originals),
        _describe_demands(audit),
        _describe_window_loss(windows, left=left, shortened=shortened),
        _describe_state_loss(counts),
    )


def _describe_record_loss(found: Originals) -> Loss:
    phrases: list[Phrase] = []
    if found.readable == found.items:
        phrases += [
            Phrase(text="nothing", strong=True),
            Phrase(text=f": {_count_all(found.items, 'item')} it replaced can be read back"),
        ]
    else:
        phrases += [Phrase(text=f"{format_number(found.readable)} of {format_count(found.items, 'item')}", strong=True)]
        phrases += [Phrase(text=" it replaced can be read back")]
        phrases += _list_links("; erased on request: ", found.erased) + _list_links("; damaged or missing: ", found.lost)
    if found.resolving == found.pointers:
        verb = "leads" if found.pointers == 1 else "lead"
        phrases.append(Phrase(text=f"; {_count_all(found.pointers, 'pointer')} {verb} to a record"))
    else:
        resolving = f"{format_number(found.resolving)} of {format_count(found.pointers, 'pointer')}"
        phrases += [Phrase(text="; "), Phrase(text=resolving, strong=True), Phrase(text=" lead to a record")]
        phrases += _list_links("; to erased records: ", found.to_erased) + _list_links("; to nothing: ", found.to_nothing)
    is_bad = found.readable < found.items or found.resolving < found.pointers
    return Loss(question="From the record", phrases=tuple(phrases), is_bad=is_bad)


def _count_all(many: int, noun: str) -> str:
    return f"the one {noun}" if many == 1 else f"all {format_count(many, noun)}"


def _list_links(before: str, pointers: Sequence[Pointer]) -> list[Phrase]:
    if not pointers:
        return []
    phrases = [Phrase(text=before)]
    for at, pointer in enumerate(pointers[:POINTERS_SHOWN]):
        phrases += [Phrase(text=" ")] if at else []
        phrases.append(Phrase(text=f"#{pointer.ordinal}", href=link_record(pointer)))
    more = len(pointers) - POINTERS_SHOWN
    return [*phrases, Phrase(text=f" and {format_number(more)} more")] if more > 0 else phrases


def _describe_demands(audit: AuditReport) -> Loss:
    question = "From what the audit requires"
    if not audit.required:
        return Loss(question=question, phrases=(Phrase(text="nothing was required of this span"),))
    phrases = [
        Phrase(text=f"{format_number(audit.kept)} of {format_number(audit.required)}", strong=True),
        Phrase(text=" required things are in the window"),
    ]
    missing = audit.required - audit.kept
    if missing > 0:
        phrases += [Phrase(text=", "), Phrase(text=f"{format_number(missing)} did not fit and are left to recall", strong=True)]
    if audit.repaired:
        phrases += [Phrase(text="; "), Phrase(text=f"{format_count(len(audit.repaired), 'false line')} corrected", href="#audit")]
    return Loss(question=question, phrases=tuple(phrases), is_bad=missing > 0)


def _describe_window_loss(windows: WindowDiff, *, left: str, shortened: str) -> Loss:
    phrases = [
        Phrase(text=format_count(windows.left_items, "item"), strong=True, href=left),
        Phrase(text=f", {format_number(windows.left_tokens)} tokens", href=left),
    ]
    if windows.left:
        phrases.append(Phrase(text=f": {', '.join(windows.left)}"))
    if windows.shortened:
        text = f"{format_count(windows.shortened, 'output')} shortened to one line each"
        phrases += [Phrase(text="; "), Phrase(text=text, href=shortened)]
    return Loss(question="From the window", phrases=tuple(phrases))


def _describe_state_loss(counts: dict[str, int]) -> Loss:
    phrases: list[Phrase] = []
    for name in RETIRED:
        if counts.get(name):
            phrases += [Phrase(text=", ")] if phrases else []
            phrases += [Phrase(text=f"{format_number(counts[name])} {name}", strong=True, href=f"#g-{name}")]
    phrases = phrases or [Phrase(text="nothing that anybody said", strong=True)]
    return Loss(question="From the state", phrases=tuple(phrases))
