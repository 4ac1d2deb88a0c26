"""The items of a foreign transcript that have records, so that its compactions point at them instead of repeating them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.items import Item, View, body_digest
from threadkeep.runtime.said import Placed
from threadkeep.thread import KeepEntry, LiteralEntry
from threadkeep.tokens import estimate_item

# How many items are remembered to recognise them in a compaction; what is older is repeated there and not pointed at.
REMEMBERED = 4_096


class Recorded(NamedTuple):
    """An item that has a record."""

    thread_id: str
    ordinal: int
    depth: int
    tokens: int

    @property
    def kept(self) -> Placed:
        """The item as a position of a layout: a reference to its record."""
        return Placed(KeepEntry(thread=self.thread_id, ordinal=self.ordinal, depth=self.depth), self.tokens)


class LandedItems:
    """The newest items of one lane, found again by their bytes, and by a person's words in whatever form these come back."""

    def __init__(self, *, dialect: Dialect, redact: Callable[[bytes], bytes] | None) -> None:
        self._dialect = dialect
        self._redact = redact
        self._by_bytes: OrderedDict[bytes, Recorded] = OrderedDict()
        self._by_words: OrderedDict[bytes, Recorded] = OrderedDict()

    def remember(self, item: Item, view: View, recorded: Recorded) -> None:
        """Note which record an item has; of equal items the newest counts."""
        _put(self._by_bytes, body_digest(item.raw), recorded)
        if view.by_person:
            _put(self._by_words, _words(view), recorded)

    def placed(self, item: Item, *, issuer: str) -> Placed:
        """Return an item of a compacted history: the record it repeats where there is one, else its own bytes.

        A person's words that a compaction wrapped anew keep the record they were said in as their source.
        """
        known = self._by_bytes.get(body_digest(item.raw))
        if known is not None:
            return known.kept
        view = self._dialect.view(item)
        said = self._by_words.get(_words(view)) if view.by_person else None
        raw = self._redact(item.raw) if self._redact else item.raw
        thread_id, ordinal = (said.thread_id, said.ordinal) if said else (None, None)
        entry = LiteralEntry(item=msgspec.Raw(raw), issuer=issuer, thread=thread_id, ordinal=ordinal)
        return Placed(entry, estimate_item(raw))


def _put(memory: OrderedDict[bytes, Recorded], key: bytes, recorded: Recorded) -> None:
    memory.pop(key, None)
    memory[key] = recorded
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _words(view: View) -> bytes:
    return blake2b(view.text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
