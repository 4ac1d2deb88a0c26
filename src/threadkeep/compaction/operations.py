"""What a draft may do to the ledger. Whatever it does not mention is retained."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.compaction.ledger import Section, Speaker
from threadkeep.thread import Pointer

# How a line that a model wrote is told from a user's words wherever it is shown; what reads replies takes it off again.
FROM_A_MODEL = "from a summary, not from the user: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """A new entry. A user's words may set aside older ones they are tied to."""

    section: Section
    text: str
    source: Pointer
    speaker: Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Hear:
    """A user's statement that stays in the window as it is: no entry, but it may set aside older ones."""

    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Supersede:
    """The draft says that `entry_id` gave way to `claim`, said at `by`. Code decides whether that holds."""

    entry_id: str
    by: Pointer
    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """A section's computed entries are these, and no others."""

    section: Section
    lines: tuple[tuple[str, Pointer | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The model's own entry `entry_id` now reads `text`; of anyone else's it changes nothing."""

    entry_id: str
    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Redraft:
    """Of the model's own entries in a section that does not bind, only `kept` stay."""

    section: Section
    kept: tuple[str, ...]


Operation = Add | Hear | Supersede | Refresh | Update | Redraft
