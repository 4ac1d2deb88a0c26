"""What a draft may do to the ledger. Whatever it does not mention is retained."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.compaction.ledger import Section
from threadkeep.threads import Pointer

# How a line that a model wrote is told from a user's words wherever it is shown; what reads replies takes it off again.
FROM_A_MODEL = "from a summary, not from the user: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """A new entry in the model's words."""

    section: Section
    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """The entry `entry_id` gave way to `quote`, said at `by`. Of a user's entry code checks that the user said so there."""

    entry_id: str
    by: Pointer
    quote: str


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


Operation = Add | Retire | Update | Redraft
