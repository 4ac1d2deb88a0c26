"""What did a compaction lose? From the record, from what people demanded, from the window, from the state: a line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from threadkeep.compaction import AuditReport
from threadkeep.threads import Pointer
from threadkeep.viewer.archive import Archive
from threadkeep.viewer.changes import Group
from threadkeep.viewer.figures import counted, number
from threadkeep.viewer.templating import record_url
from threadkeep.viewer.windows import SideBySide

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
