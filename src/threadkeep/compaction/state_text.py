"""The session state as the model reads it: one block, five sections, stable bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from threadkeep.compaction.ledger import BINDING, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.message_shortener import cut_middle, tell_briefly
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.threads import Pointer

TAG = "session_compact_state"
HEADINGS = {
    Section.OBJECTIVE: "Objective:",
    Section.ACTIVE: "Active Memory:",
    Section.INACTIVE: "Inactive Changes:",
    Section.HANDOFF: "Current Handoff:",
    Section.EVIDENCE: "Evidence Pointers:",
}
PREFACE = (
    f"{STATE_OPENING} This is its record, not a new request: the user's own words in order, the later one decides; `agent:` "
    "marks what you found out. #N names a record."
)
BEHIND = " The user's messages behind it were said before, too; only the last one waits for an answer."
FROM_THE_AGENT = "agent: "
# Tells a model's line from a user's wherever it is shown; parsing a reply removes it.
FROM_A_MODEL = "from a summary, not from the user: "
SOURCES_SHOWN = 3
# Where people said more than fits, a longer message is told in brief.
BRIEF_CHARS = 400
# A long objective loses its middle where the state is tight.
OBJECTIVE_TOKENS = 300

_tag = re.compile(rf"<(/?\s*{TAG})", re.IGNORECASE)


def render_state(ledger: Ledger, *, whole: bool = False) -> str:
    """Return the text of the state message. The same ledger always gives the same bytes.

    Entries that messages of the window tell, and entries without room, are left out. `whole` renders all of them, with their
    ids: for a model that may change them, or that sees nothing else.
    """
    hidden = frozenset[str]() if whole else ledger.in_view | ledger.left_out
    brief = frozenset[str]() if whole else ledger.brief
    shown: dict[Section, list[LedgerEntry]] = {section: [] for section in Section}
    gone: dict[Section, list[LedgerEntry]] = {section: [] for section in Section}
    for entry in ledger.entries:
        if entry.id not in hidden:
            shown[entry.section].append(entry)
        elif entry.id in ledger.left_out:
            gone[entry.section].append(entry)
    sections = []
    for section, entries in shown.items():
        lines = [f"- {render_line(entry, brief=entry.id in brief, with_id=whole)}" for entry in sort_for_reading(entries)]
        lines.extend(_render_left_out(gone[section]))
        sections.append("\n".join([HEADINGS[section], *(lines or ["- none"])]))
    preface = f"{PREFACE}{BEHIND}" if ledger.in_view and not whole else PREFACE
    return f"{preface}\n\n<{TAG}>\n" + "\n\n".join(sections) + f"\n</{TAG}>"


def sort_for_reading(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """Return entries in the order of a section: pins, people's messages, a model's lines, then findings and computed lines."""
    return sorted(entries, key=_rank_entry)


def render_line(entry: LedgerEntry, *, brief: bool = False, with_id: bool = False) -> str:
    """Return an entry's line without its bullet; `with_id` for a reader that may change the entry."""
    text = neutralise(entry.text)
    if brief and entry.section is Section.OBJECTIVE:
        text = cut_middle(text, tokens=OBJECTIVE_TOKENS)
    elif brief and len(text) > BRIEF_CHARS:
        text = tell_briefly(text, BRIEF_CHARS)
    match entry.speaker:
        case Speaker.AGENT:
            text = f"{FROM_THE_AGENT}{text}"
        case Speaker.MODEL:
            text = f"{FROM_A_MODEL if entry.section in BINDING else ''}{text}"
        case Speaker.USER | Speaker.COMPUTED:
            pass
    if with_id and entry.speaker in (Speaker.USER, Speaker.MODEL):
        text = f"[{entry.id}] {text}"
    if entry.sources:
        text = f"{text} ({_format_sources(entry.sources)})"
    if entry.claim is None:
        return text
    return f"supersede | {text} → #{entry.claim.source.ordinal}: {neutralise(entry.claim.text)}"


def neutralise(text: str) -> str:
    """Return text on one line that cannot be taken for the block's own structure, credentials masked."""
    return _tag.sub(r"‹\1", mask_secrets(" ".join(text.split())))


def _rank_entry(entry: LedgerEntry) -> int:
    if entry.pinned:
        return 0
    match entry.speaker:
        case Speaker.USER:
            return 1
        case Speaker.MODEL:
            return 2
        case Speaker.AGENT | Speaker.COMPUTED:
            return 3


def _render_left_out(gone: Sequence[LedgerEntry]) -> Iterator[str]:
    """Yield the lines that count the entries a section has no room for."""
    said = [entry for entry in gone if entry.speaker is Speaker.USER]
    if said:
        messages = _format_count(said, "message")
        yield f"- left out for want of room: {messages} of the user ({_format_span(said)}); recall finds them"
    # A draft's line that found no room is made anew by the next draft; to name it would cost room.
    others = [entry for entry in gone if entry.speaker not in (Speaker.USER, Speaker.MODEL)]
    if others:
        yield f"- left out for want of room: {_format_count(others, 'line')}; recall finds them"


def _format_count(entries: Sequence[LedgerEntry], noun: str) -> str:
    return f"{len(entries)} {noun}" if len(entries) == 1 else f"{len(entries)} {noun}s"


def _format_span(entries: Iterable[LedgerEntry]) -> str:
    places = sorted(source.ordinal for entry in entries for source in entry.sources[-1:])
    return f"#{places[0]}" if places[0] == places[-1] else f"#{places[0]} to #{places[-1]}"


def _format_sources(sources: tuple[Pointer, ...]) -> str:
    shown = ", ".join(f"#{source.ordinal}" for source in sources[-SOURCES_SHOWN:])
    more = len(sources) - SOURCES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
