"""What a model sees, one entry at a time: exact bytes, and what can be known about them."""

from __future__ import annotations

from threadkeep.items.digest import body_digest, chain_link, chain_seed, written
from threadkeep.items.item import Item, ItemKind, Role, View
from threadkeep.items.json_text import decoded, is_json, mended
from threadkeep.items.pairing import boundaries, open_calls, orphans

__all__ = [
    "Item",
    "ItemKind",
    "Role",
    "View",
    "body_digest",
    "boundaries",
    "chain_link",
    "chain_seed",
    "decoded",
    "is_json",
    "mended",
    "open_calls",
    "orphans",
    "written",
]
