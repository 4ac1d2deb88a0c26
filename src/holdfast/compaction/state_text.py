"""The session state as the model reads it: one block, five sections, stable bytes."""

from __future__ import annotations

import re

from holdfast.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from holdfast.compaction.secrets import masked
from holdfast.dialects.base import STATE_OPENING
from holdfast.thread import Pointer

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
    "user's later words beside it decide. #N names the original record."
)
SOURCES_SHOWN = 3

_tag = re.compile(rf"<(/?\s*{TAG})", re.IGNORECASE)


def render_state(ledger: Ledger) -> str:
    """Return the text of the state message. The same ledger always gives the same bytes."""
    sections = ["\n".join([HEADINGS[section], *_lines(ledger, section)]) for section in Section]
    return f"{PREFACE}\n\n<{TAG}>\n" + "\n\n".join(sections) + f"\n</{TAG}>"


def neutralised(text: str) -> str:
    """Return text on one line that cannot be taken for the block's own structure, credentials masked."""
    return _tag.sub(r"‹\1", masked(" ".join(text.split())))


def _lines(ledger: Ledger, section: Section) -> list[str]:
    lines = [f"- {_line(entry)}" for entry in ledger.section(section)]
    if section is Section.EVIDENCE and ledger.archived:
        lines.append(f"- older entries archived: {ledger.archived}; recall finds them")
    return lines or ["- none"]


def _line(entry: LedgerEntry) -> str:
    text = neutralised(entry.text)
    if entry.speaker is not Speaker.COMPUTED:
        text = f"[{entry.id}] {text}"
    if entry.sources:
        text = f"{text} ({_sources(entry.sources)})"
    if entry.claim is None:
        return text
    claim = f"#{entry.claim.source.ordinal}: {neutralised(entry.claim.text)}"
    if entry.section is Section.INACTIVE:
        return f"supersede | {text} → {claim}"
    if not entry.claim.proven:
        return f"{text} — a summary disputes this, the user did not: {claim}"
    return f"{text} — contested by {claim}"


def _sources(sources: tuple[Pointer, ...]) -> str:
    shown = ", ".join(f"#{source.ordinal}" for source in sources[-SOURCES_SHOWN:])
    more = len(sources) - SOURCES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
