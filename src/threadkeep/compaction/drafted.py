"""Which of a model's own entries may stand beside what users said.

A user's words are kept whatever a model writes, so its version of them can add nothing and may change everything: one value in a
sentence that otherwise reads the same. What binds is therefore never told in a model's words where a user spoke about it, and
nowhere does a model give another value for what a user fixed. A value that nothing shows binds nobody. Each such entry leaves
the state and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from threadkeep.compaction.ledger import BINDING, Ledger, LedgerEntry, Speaker
from threadkeep.compaction.overlap import Statements
from threadkeep.compaction.ties import Terms, has_shape_of, is_negative, terms

# Half of what the shorter one has to say: below that, two statements only touch.
VERSION_SHARE = 0.5
ALMOST_HALF = 0.4
NEARLY_ALL = 0.75
# A value that nothing shows is a lie about what a user or the work fixed as soon as the two touch at all.
TOUCHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An entry, or a model's claim beside one, that may not stand, and why: `restated`, `contradicted`, `invented`."""

    kind: str
    text: str
    entry: LedgerEntry


def without_doubtful(ledger: Ledger, *, said: Iterator[str], shows: Callable[[str], bool]) -> tuple[Ledger, list[Doubt]]:
    """Return the ledger without what a model may not say, and what that was.

    Args:
        said: What users said, beside the ledger's own entries.
        shows: Whether the span or the older ledger shows a value.
    """
    if not any(_is_drafted(entry) for entry in ledger.entries):
        return ledger, []
    users = _Users(ledger, said)
    kept: list[LedgerEntry] = []
    doubts: list[Doubt] = []
    for entry in ledger.entries:
        doubt = _doubt(entry, users, shows=shows if entry.born == ledger.age else lambda value: True)
        if doubt is None:
            kept.append(entry)
            continue
        doubts.append(doubt)
        if entry.speaker is Speaker.USER:
            kept.append(replace(entry, claim=None))
    return (replace(ledger, entries=tuple(kept)) if doubts else ledger), doubts


def _is_drafted(entry: LedgerEntry) -> bool:
    return entry.speaker is Speaker.MODEL or (entry.claim is not None and not entry.claim.proven)


def _doubt(entry: LedgerEntry, users: _Users, *, shows: Callable[[str], bool]) -> Doubt | None:
    if entry.pinned or not _is_drafted(entry):
        return None
    claim = entry.claim.text if entry.claim is not None and not entry.claim.proven else ""
    text = claim if entry.speaker is Speaker.USER else f"{entry.text} {claim}".strip()
    about = terms(text)
    unseen = sorted(value for value in about.values if not shows(value))
    if entry.speaker is Speaker.USER:
        varies = terms(entry.text).words & about.words or users.contradicted_by(text, about)
        return Doubt(kind="contradicted", text=text, entry=entry) if unseen or varies else None
    if users.contradicted_by(text, about, unseen=bool(unseen)):
        return Doubt(kind="contradicted", text=text, entry=entry)
    if entry.section not in BINDING:
        # A new name may be a plan; a figure or an id that nothing shows is made up.
        made_up = [value for value in unseen if len(value) > 2 and any(char.isdigit() for char in value)]
        return Doubt(kind="invented", text=", ".join(made_up), entry=entry) if made_up else None
    strangers = any(not shows(word) and not shows(word.capitalize()) for word in about.words)
    if users.told_by(about, with_strangers=strangers):
        return Doubt(kind="restated", text=text, entry=entry)
    return Doubt(kind="invented", text=", ".join(unseen), entry=entry) if unseen else None


class _Users:
    """What users said, to be compared with."""

    def __init__(self, ledger: Ledger, said: Iterator[str]) -> None:
        own = (entry.text for entry in ledger.entries if entry.speaker is Speaker.USER)
        claims = (e.claim.text for e in ledger.entries if e.claim is not None and e.claim.proven)
        self._all: Statements[str] = Statements()
        for text in dict.fromkeys((*own, *claims, *said)):
            self._all.add(text, text)
        # What code computed is no user's, but as little for a model to give another value for.
        self._computed = {entry.text for entry in ledger.entries if entry.speaker is Speaker.COMPUTED}
        for text in self._computed:
            self._all.add(text, text)

    def told_by(self, about: Terms, *, with_strangers: bool) -> bool:
        """Whether a text is a version of something a user said; with words that nothing shows, less of it has to be the same."""
        least = ALMOST_HALF if with_strangers else VERSION_SHARE
        for text in self._all.sharing(about.values | about.words) - self._computed:
            other = terms(text)
            like = self._all.likeness(about, other)
            firmly = like.words >= 2 or like.share >= NEARLY_ALL or about.values & other.values
            # Two statements that only share a figure are not about one thing.
            if like.share >= least and like.words and (firmly or with_strangers):
                return True
        return False

    def contradicted_by(self, text: str, about: Terms, *, unseen: bool = False) -> bool:
        """Whether a text gives another value for something a user fixed, or denies what a user said."""
        for said in self._all.sharing(about.values | about.words):
            other = terms(said)
            like = self._all.likeness(about, other)
            if like.share < (TOUCHING if unseen else VERSION_SHARE):
                continue
            fresh, gone = about.values - other.values, other.values - about.values
            # One digit beside one shared word is a count: "part 9" does not deny "part 8".
            swapped = any(has_shape_of(value, gone) for value in fresh if len(value) > 1 or like.words > 1)
            if swapped and not self._says_both(about):
                return True
            if like.share >= NEARLY_ALL and is_negative(text) != is_negative(said):
                return True
            if like.share >= VERSION_SHARE and like.words >= 2 and not fresh and not gone and about.words - other.words:
                words = about.words - other.words
                if len(words) <= 2 and not any(self._all.sharing((word,)) for word in words):
                    return True
        return False

    def _says_both(self, about: Terms) -> bool:
        """Whether another statement of a user holds every value a text names, among words it shares: that is what it tells."""
        for said in self._all.sharing(about.values):
            other = terms(said)
            if about.values <= other.values and self._all.likeness(about, other).share >= VERSION_SHARE:
                return True
        return False
