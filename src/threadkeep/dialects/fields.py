"""A JSON object of an answer, read field by field: an odd field is an absent one and costs none of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Raw
from msgspec.json import Decoder

from threadkeep.dialects.spans import FIELDS, elements_of, fields_of, read
from threadkeep.items import mended

ABSENT: Final = b"null"

_TEXT: Final = Decoder(str)
_INTEGER: Final = Decoder(int)
# Token counts end up in 64-bit columns; a number beyond any real count is no count.
_COUNT: Final[Decoder[int]] = Decoder(Annotated[int, Meta(ge=0, le=2**53)])


class Fields:
    """The fields of one object. Hostile input: nothing here raises, and what is not of the kind asked for is absent.

    What a field begins with tells its kind, so that the many that are absent or null cost next to nothing.
    """

    __slots__ = ("_spans",)

    def __init__(self, spans: Mapping[str, bytes | Raw]) -> None:
        self._spans = spans

    def span(self, name: str) -> bytes:
        """Return the exact bytes of a field; `null` where it is absent. They may be no UTF-8."""
        return bytes(self._spans.get(name, ABSENT))

    def text(self, name: str) -> str | None:
        """Return a text, half an emoji in it read as a replacement mark."""
        if name not in self._spans or not (span := self.span(name)).startswith(b'"'):
            return None
        text = read(_TEXT, span)
        return read(_TEXT, mended(span)) if text is None else text

    def integer(self, name: str) -> int | None:
        return None if (span := self.span(name)) == ABSENT else read(_INTEGER, span)

    def count(self, name: str) -> int | None:
        """Return a number of things: not negative, and not beyond any real count."""
        return None if (span := self.span(name)) == ABSENT else read(_COUNT, span)

    def elements(self, name: str) -> list[bytes] | None:
        """Return the exact bytes of each element of a list."""
        return elements_of(span) if (span := self.span(name)).startswith(b"[") else None

    def object(self, name: str) -> Fields | None:
        return fields_in(span) if (span := self.span(name)).startswith(b"{") else None

    def inner(self, name: str) -> Fields:
        """Return the object in a field; one without any field where there is none."""
        return self.object(name) or Fields({})


def fields_in(data: bytes) -> Fields | None:
    """Return the fields of an object; None for anything else."""
    # The plain way copies only the fields that are asked for.
    spans = read(FIELDS, data) or fields_of(data)
    return None if spans is None else Fields(spans)
