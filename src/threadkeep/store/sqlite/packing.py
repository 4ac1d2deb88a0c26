"""How a body's bytes lie in the file."""

from __future__ import annotations

import zlib
from enum import IntEnum

# Below this a body shares its page with others and deflating saves little; above, it spills into pages of its own.
PACK_FROM_BYTES = 1024
# Level 1 takes most of what higher levels take from JSON, at a third of their time; a writer holds the lock meanwhile.
_LEVEL = 1


class Form(IntEnum):
    """Stored by value; the database refuses any other."""

    PLAIN = 0
    DEFLATED = 1


def pack(body: bytes) -> tuple[Form, bytes]:
    """Return the smaller of a body's forms, and its bytes in that form."""
    if len(body) >= PACK_FROM_BYTES:
        deflated = zlib.compress(body, _LEVEL)
        if len(deflated) < len(body):
            return Form.DEFLATED, deflated
    return Form.PLAIN, body


def unpack(form: int, data: bytes) -> bytes:
    """Return the body that `pack` was given; where the data is damaged, the data as it is, which its digest gives away.

    One body that cannot be unpacked must not cost the records that are read with it.
    """
    if form != Form.DEFLATED:
        return data
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data
