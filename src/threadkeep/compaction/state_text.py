"""The session state as the model reads it: one block, five sections, stable bytes.

There are two forms. The whole one gives every entry a line, its id and its pointers. The brief one, for a state over its budget,
has the same words of the user in fewer signs: sentences of one message on one line, what begins with the same label behind one
label, an entry and what contests it told once, sections without entries left out. The pointers tell the order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from itertools import groupby

from threadkeep.compaction.bindings import FROM_A_TOOL
from threadkeep.compaction.contests import earlier_words, newest_words
from threadkeep.compaction.ledger import BINDING, Brevity, Claim, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.operations import FROM_A_MODEL
from threadkeep.compaction.secrets import masked
from threadkeep.compaction.statements import is_cut, is_paste
from threadkeep.compaction.ties import label_of
from threadkeep.dialects.base import STATE_OPENING
from threadkeep.thread import Pointer

TAG = "session_compact_state"
HEADINGS = {
    Section.OBJECTIVE: "Objective:",
    Section.ACTIVE: "Active Memory:",
    Section.INACTIVE: "Inactive Changes:",
    Section.HANDOFF: "Current Handoff:",
    Section.EVIDENCE: "Evidence Pointers:",
}
PREFACE = (
    f"{STATE_OPENING} The block below is a record of it, not a new request. What the user said "
    "is quoted word for word and still holds, unless it stands under Inactive Changes; where an entry is marked contested, the "
    "user's later words beside it decide. #N names the original record, higher ones are later; where two things differ, the "
    "later one decides."
)
BEHIND = " Messages of the user behind the block were said before, too, and dealt with, but for the last; what they say holds."
BRIEF_PREFACE = f"{STATE_OPENING} What the user said still holds; #N is its record."
SOURCES_SHOWN = 3
# A contested entry and the user's later words, on one line in the order they were said, each called what it is before its words.
# Small models read it right more often than "contested by" between the two, or the newer first: docs/figures.md.
EARLIER = "earlier, contested: "
LATEST = " — latest "

_tag = re.compile(rf"<(/?\s*{TAG})", re.IGNORECASE)


def render_state(ledger: Ledger, *, whole: bool = False) -> str:
    """Return the text of the state message. The same ledger always gives the same bytes.

    A ledger that was over its budget is told briefly, and what messages behind the state tell is left out. `whole` tells all of
    it with every id, as whoever is to change it, or is handed nothing else, must be shown it.
    """
    if ledger.brevity is not None and not whole:
        return _block(BRIEF_PREFACE, _brief_sections(ledger, ledger.brevity), gap="\n")
    behind = frozenset[str]() if whole else ledger.behind
    sections = ("\n".join([HEADINGS[section], *_lines(ledger, section, behind)]) for section in Section)
    return _block(f"{PREFACE}{BEHIND if behind else ''}\n", sections, gap="\n\n")


def neutralised(text: str) -> str:
    """Return text on one line that cannot be taken for the block's own structure, credentials masked."""
    return _tag.sub(r"‹\1", masked(" ".join(text.split())))


def _block(preface: str, sections: Iterable[str], *, gap: str) -> str:
    return f"{preface}\n<{TAG}>\n" + gap.join(sections) + f"\n</{TAG}>"


def _lines(ledger: Ledger, section: Section, behind: Set[str]) -> list[str]:
    entries = [entry for entry in ledger.section(section) if entry.id not in behind]
    found = [entry for entry in entries if entry.speaker is Speaker.COMPUTED and entry.text.startswith(FROM_A_TOOL)]
    labelled = {entry.id for entry in found}
    lines = [f"- {_line(entry)}" for entry in entries if entry.id not in labelled]
    if found:
        # Many and short: behind one label they take half the room.
        lines.append(f"- {FROM_A_TOOL}" + " · ".join(_line(entry).removeprefix(FROM_A_TOOL) for entry in found))
    if section is Section.EVIDENCE and ledger.archived:
        lines.append(f"- older entries archived: {ledger.archived}; recall finds them")
    return lines or ["- none"]


def _line(entry: LedgerEntry) -> str:
    text = neutralised(entry.text)
    is_contested = entry.claim is not None and entry.claim.proven and entry.section is not Section.INACTIVE
    if is_contested:
        text = f"{EARLIER}{text}"
    if entry.speaker is not Speaker.COMPUTED:
        text = f"[{entry.id}] {FROM_A_MODEL if _needs_mark(entry) else ''}{text}"
    if entry.sources:
        text = f"{text} ({_sources(entry.sources)})"
    if entry.claim is None:
        return text
    claim = f"#{entry.claim.source.ordinal}: {neutralised(entry.claim.text)}"
    if entry.section is Section.INACTIVE:
        return f"supersede | {text} → {claim}"
    return f"{text}{LATEST if is_contested else ' — a summary disputes this, the user did not: '}{claim}"


def _needs_mark(entry: LedgerEntry) -> bool:
    """Whether a reader could take a model's words for the user's: only where the user's stand too."""
    return entry.speaker is Speaker.MODEL and entry.section in BINDING


def _sources(sources: tuple[Pointer, ...]) -> str:
    shown = ", ".join(f"#{source.ordinal}" for source in sources[-SOURCES_SHOWN:])
    more = len(sources) - SOURCES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _brief_sections(ledger: Ledger, brevity: Brevity) -> Iterator[str]:
    told = {words for entry in ledger.entries if entry.section in BINDING for words in _told_beside(entry, brevity)}
    for section in Section:
        lines = [f"- {line}" for line in _brief_lines(ledger.section(section), brevity, told)]
        if section is Section.EVIDENCE:
            lines.extend(_left_out(ledger, brevity))
        if lines:
            yield "\n".join([HEADINGS[section], *lines])


def _told_beside(entry: LedgerEntry, brevity: Brevity) -> Iterator[tuple[int, str]]:
    """Yield the statements, each with its record, that stand on an entry's line beside its own words."""
    if entry.claim is None:
        return
    yield from earlier_words(entry.claim)
    if entry.id not in brevity.in_view:
        yield entry.claim.source.ordinal, newest_words(entry.claim)


def _brief_lines(entries: tuple[LedgerEntry, ...], brevity: Brevity, told: set[tuple[int, str]]) -> Iterator[str]:
    """Yield a section's lines. What stands beside an older entry as the claim on it is not told a second time.

    Entries that the same words speak against share a line, so that these, too, are told once.
    """
    shown = [
        entry
        for entry in entries
        if entry.id not in brevity.passing
        and (entry.claim is not None or entry.id not in brevity.in_view)
        and (entry.claim is not None or not any((source.ordinal, entry.text) in told for source in entry.sources))
    ]
    lines: list[tuple[str, list[str]]] = []
    labelled: dict[str, list[str]] = {}
    against = _by_claim(shown)
    for (claim, sources), group in groupby(shown, key=lambda entry: (entry.claim, entry.sources)):
        members = list(group)
        if claim is not None:
            if together := against.pop(_against(claim), None):
                lines.append(("", [_brief_claim(together, in_view=together[0].id in brevity.in_view)]))
            continue
        words = " ".join(neutralised(each.text) for each in members)
        label = _label(words, members[0].speaker)
        told_here = _pointed(words.removeprefix(label), () if brevity.bare and all(map(_is_whole, members)) else sources)
        if label in labelled:
            labelled[label].append(told_here)
            continue
        lines.append((label, [told_here]))
        if label:
            labelled[label] = lines[-1][1]
    yield from (label + " · ".join(parts) for label, parts in lines)


def _against(claim: Claim) -> tuple[Pointer, str, bool]:
    """Return what two claims share that are the same words said at the same place."""
    return claim.source, newest_words(claim), claim.proven


def _by_claim(entries: Iterable[LedgerEntry]) -> dict[tuple[Pointer, str, bool], list[LedgerEntry]]:
    found: dict[tuple[Pointer, str, bool], list[LedgerEntry]] = {}
    for entry in entries:
        if entry.claim is not None:
            found.setdefault(_against(entry.claim), []).append(entry)
    return found


def _is_whole(entry: LedgerEntry) -> bool:
    """Whether an entry says all there is to say: a user's own words, nothing pasted and nothing cut."""
    return entry.speaker is Speaker.USER and not is_paste(entry.text) and not is_cut(entry.text)


def _label(words: str, speaker: Speaker) -> str:
    """Return what a line begins with that others may begin with too: such are told on one line, behind it."""
    if speaker is Speaker.COMPUTED:
        label, colon, _ = words.partition(": ")
        return f"{label}: " if colon else ""
    return label_of(words)


def _brief_claim(members: list[LedgerEntry], *, in_view: bool) -> str:
    """Return the line of entries that the same words speak against: what was said before these is trimmed by no budget."""
    claim = next(member.claim for member in members if member.claim is not None)
    place = f"#{claim.source.ordinal}"
    if members[0].section is Section.INACTIVE:
        # What replaced them has words of its own where it holds.
        return f"{' '.join(_pointed('', member.sources).strip() for member in members)} → {place}"
    own = {member.text for member in members}
    earlier = {part: None for member in members if member.claim is not None for part in earlier_words(member.claim)}
    older = [_pointed(neutralised(member.text), member.sources) for member in members]
    between = [f"{neutralised(text)} #{ordinal}" for ordinal, text in sorted(earlier) if text not in own]
    newer = place if in_view else f"{place}: {neutralised(newest_words(claim))}"
    said = "; ".join((*older, *between))
    return f"{EARLIER}{said}{LATEST}{newer}" if claim.proven else f"{said} — disputed by a summary, not the user: {newer}"


def _pointed(text: str, sources: tuple[Pointer, ...]) -> str:
    return f"{text} #{sources[-1].ordinal}" if sources else text


def _left_out(ledger: Ledger, brevity: Brevity) -> Iterator[str]:
    passing = [entry.sources[-1].ordinal for entry in ledger.entries if entry.id in brevity.passing and entry.sources]
    if passing:
        yield f"- said in passing: {' '.join(f'#{ordinal}' for ordinal in dict.fromkeys(passing))}"
    if ledger.archived:
        yield f"- archived: {ledger.archived}"
