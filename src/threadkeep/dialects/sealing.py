"""What only the account it was issued to may hand back: encrypted reasoning, signed thinking, a provider's own compaction."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.base import Dialect
from threadkeep.items import Item

# Every form of what is sealed names itself by one of these, so that an item without them need not be read for it.
SIGNS: Final = (b"thinking", b"reasoning", b"compaction")
# Said in place of a compaction: it stands for a history, and its reader must know that there was one.
UNREADABLE: Final = "(An earlier part of this conversation was compacted by another provider, and cannot be read here.)"


def holds_sealed(item: Item, dialect: Dialect) -> bool:
    """Whether an item holds something of the kind."""
    return any(sign in item.raw for sign in SIGNS) and dialect.without_sealed(item) is not item
