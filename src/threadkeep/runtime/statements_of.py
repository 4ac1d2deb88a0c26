"""What a thread says that could be remembered: its ledger, and what people said since."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from threadkeep.compaction import Ledger, Section, Speaker, ledger_of
from threadkeep.compaction.changes import corrects, is_courtesy, only_asks, withdraws
from threadkeep.compaction.ledger import Claim, LedgerEntry
from threadkeep.compaction.merge import merge
from threadkeep.compaction.operations import Hear
from threadkeep.compaction.passing import only_tells
from threadkeep.compaction.secrets import masked
from threadkeep.compaction.statements import is_paste, statements
from threadkeep.dialects import Dialect
from threadkeep.items import ItemKind
from threadkeep.memory import Candidate
from threadkeep.memory.records import memory_id
from threadkeep.runtime.reading import live_path, load_history
from threadkeep.store import ThreadStore
from threadkeep.thread import EntryKind, Pointer

mask = masked
# Where memories are said to stand while they are compared: no thread has this name.
MEMORIES = "memories"
# Asked as a question, it is still a rule: "could you always use tabs?"
_standing = re.compile(r"\b(?:always|never|every time|from now on)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """What a thread holds to, oldest first, and the names of what it held to once and took back."""

    candidates: tuple[Candidate, ...]
    superseded: tuple[str, ...] = ()


async def statements_of(store: ThreadStore, thread_id: str, *, dialect: Dialect) -> Statements:
    """Return what a thread says now. Costs its window, not its history: the ledger carries what came before.

    Only people's own words and what the session settled count: no tool output, no host's context, no reasoning, nothing pasted.

    Raises:
        StoreCorrupt, RecordNotFound: The thread has no window.
    """
    history = await load_history(store, await live_path(store, thread_id))
    ledger = ledger_of(history)
    found = [
        Candidate(text=entry.text, source=str(entry.sources[-1]), by_user=entry.speaker is Speaker.USER)
        for entry in ledger.section(Section.ACTIVE)
        if entry.sources and entry.speaker is not Speaker.COMPUTED and not is_paste(entry.text) and entry.claim is None
    ]
    contested = [
        Candidate(text=f"{entry.text} (later: {entry.claim.text})", source=str(entry.claim.source), by_user=entry.claim.proven)
        for entry in ledger.section(Section.ACTIVE)
        if entry.claim is not None
    ]
    for placed in history.entries:
        view = dialect.view(placed.item)
        # What a stub tells is in the ledger, without the stub's own marks.
        if placed.source is None or placed.kind is EntryKind.STUB or view.kind is not ItemKind.MESSAGE or not view.by_person:
            continue
        said = [text for text in statements(view.said) if not is_paste(text)]
        found += [Candidate(text=text, source=str(placed.source), by_user=True) for text in said]
    binding = [each for each in (*found, *contested) if not each.by_user or _may_bind(each.text)]
    # A message may be kept whole though something in it was taken back later.
    gone = tuple(memory_id(masked(entry.text)) for entry in ledger.section(Section.INACTIVE))
    standing = tuple(each for each in binding if memory_id(masked(each.text)) not in gone)
    return Statements(candidates=standing, superseded=gone)


def given_way(older: Mapping[str, str], newer: Sequence[str]) -> set[str]:
    """Return which of the rules in `older`, by name, gave way to what a person said later.

    A ledger would keep a rule that a change only seems to be about, and show both. A memory holds the newer one already, is
    read by another session, and may not contradict itself there.
    """
    names = dict(enumerate(older, start=1))
    held = Ledger(
        entries=tuple(
            LedgerEntry(
                id=str(number),
                section=Section.ACTIVE,
                text=older[name],
                sources=(Pointer(MEMORIES, number),),
                speaker=Speaker.USER,
                born=0,
            )
            for number, name in names.items()
        ),
        next_number=len(names) + 1,
    )
    spoken = {Pointer(MEMORIES, len(names) + place): text for place, text in enumerate(newer, start=1)}
    after = merge(held, [Hear(text=text, source=source) for source, text in spoken.items()], spoken=spoken)
    return {names[int(entry.id)] for entry in after.entries if entry.claim is not None and _is_over(entry.section, entry.claim)}


def _is_over(section: Section, claim: Claim) -> bool:
    return section is Section.INACTIVE or withdraws(claim.text) or corrects(claim.text)


def _may_bind(text: str) -> bool:
    """Whether a person's statement could bind anyone in other work: it does not only tell, ask, greet or say to go on."""
    if not any(map(str.isalnum, text)):
        return False
    asks = only_asks(text) and not _standing.search(text)
    return not (asks or is_courtesy(text) or only_tells([text]))
