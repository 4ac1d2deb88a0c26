"""The operations of a draft on the ledger. Entries without an operation stay."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.compaction.ledger import Section
from threadkeep.threads import Pointer

# The prefix of a model's line wherever it is shown, to tell it from a user's; parsing a reply removes it.
FROM_A_MODEL = "from a summary, not from the user: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """A new entry in the model's words."""

    section: Section
    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Retire the entry `entry_id` for `quote` in the record `by`. For a user's entry, code checks the quotation."""

    entry_id: str
    by: Pointer
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Change the text of the model's own entry `entry_id`; other entries do not change."""

    entry_id: str
    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Redraft:
    """Remove the model's own entries in a section that does not bind, except `kept`."""

    section: Section
    kept: tuple[str, ...]


Operation = Add | Retire | Update | Redraft
