"""What holdfast asks of a wire language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.items import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A provider request taken apart so that its history can be replaced and nothing else changes.

    Attributes:
        fields: Every top-level field and its exact JSON, in the order it was sent.
        head: Leading items the client writes anew for every request (system, developer); never part of the history.
        items: The history.
    """

    fields: Mapping[str, bytes]
    head: tuple[Item, ...]
    items: tuple[Item, ...]


class Dialect(Protocol):
    """One wire language. Pure: no method does I/O, none changes its arguments."""

    @property
    def name(self) -> str: ...

    def parse(self, value: object) -> Item:
        """Return the item for a decoded JSON value, in holdfast's one fixed serialisation.

        Raises:
            InvalidItem: It is not a JSON object, or holds what JSON cannot say.
        """
        ...

    def view(self, item: Item) -> View:
        """Return what is known about an item. An unknown form is `OPAQUE`, never an error."""
        ...

    def canonical(self, item: Item) -> bytes:
        """Return the form that two spellings of the same item share; for hashing only."""
        ...

    def split(self, body: bytes) -> Request | None:
        """Take a request apart, or return None where its history is not in it or cannot be read."""
        ...

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        """Return `request` as a body whose history is its head followed by `items`."""
        ...

    def state_item(self, text: str) -> Item:
        """Return the message that carries the session state."""
        ...

    def with_output(self, item: Item, text: str) -> Item | None:
        """Return an output item with its payload replaced by `text`, all else untouched.

        None where the item is not an output, or of a form whose payload the provider insists on.
        """
        ...
