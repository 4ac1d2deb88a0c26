"""Where the path of an import stood, and where each turn of it began, however many there were."""

from __future__ import annotations

import asyncio
import struct
import tempfile
import weakref
from dataclasses import dataclass
from typing import IO, Final

from threadkeep.items.digest import CHAIN_BYTES

# How many turns are held; older ones are written out as a block of this many.
BLOCK_TURNS: Final = 1_024
_FORM: Final = struct.Struct(f">{CHAIN_BYTES}s8q")
# How a number that is not there is written.
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path ends. `tokens` counts all of it; `hidden` what its checkpoints took out of the window.

    `turn_before` is the number, in `TurnPlaces`, of where the newest turn began.
    """

    next: int
    chain: bytes
    depth: int
    turn: int
    tokens: int = 0
    hidden: int = 0
    checkpoint: int | None = None
    turns: int = 0
    turn_before: int | None = None


class TurnPlaces:
    """Where turns began, each linked to the one before it on its path.

    A rollback may reach back over every turn of a rollout of any length, so all of them are kept, but only the newest in
    memory: the rest lies in a file without a name, which is gone with this object.
    """

    def __init__(self) -> None:
        self._newest = bytearray()
        self._written_blocks = 0
        self._file: IO[bytes] | None = None
        self._read: tuple[int, bytes] = (_NONE, b"")

    async def add(self, place: Place) -> int:
        """Keep where a turn began; returns its number."""
        number = self._written_blocks * BLOCK_TURNS + len(self._newest) // _FORM.size
        self._newest += _packed(place)
        if len(self._newest) == BLOCK_TURNS * _FORM.size:
            await asyncio.to_thread(self._write_out)
        return number

    async def back(self, number: int | None, *, turns: int) -> Place | None:
        """Return where the turn `turns` before the one of that number began, the first where there are fewer."""
        return None if number is None else await asyncio.to_thread(self._back, number, turns)

    def _back(self, number: int, turns: int) -> Place:
        place = self._at(number)
        for _ in range(turns):
            if place.turn_before is None:
                break
            place = self._at(place.turn_before)
        return place

    def _at(self, number: int) -> Place:
        block, at = divmod(number, BLOCK_TURNS)
        return _unpacked(self._block(block)[at * _FORM.size : (at + 1) * _FORM.size])

    def _block(self, number: int) -> bytes | bytearray:
        if number == self._written_blocks:
            return self._newest
        if self._read[0] != number and self._file is not None:
            self._file.seek(number * BLOCK_TURNS * _FORM.size)
            self._read = (number, self._file.read(BLOCK_TURNS * _FORM.size))
        return self._read[1]

    def _write_out(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as this object does
            weakref.finalize(self, self._file.close)
        self._file.seek(self._written_blocks * BLOCK_TURNS * _FORM.size)
        self._file.write(self._newest)
        self._newest = bytearray()
        self._written_blocks += 1


def _packed(place: Place) -> bytes:
    numbers = (place.next, place.depth, place.turn, place.tokens, place.hidden, place.turns)
    links = (_NONE if each is None else each for each in (place.checkpoint, place.turn_before))
    return _FORM.pack(place.chain, *numbers, *links)


def _unpacked(packed: bytes | bytearray) -> Place:
    chain, following, depth, turn, tokens, hidden, turns, checkpoint, turn_before = _FORM.unpack(packed)
    return Place(
        next=following,
        chain=chain,
        depth=depth,
        turn=turn,
        tokens=tokens,
        hidden=hidden,
        checkpoint=None if checkpoint == _NONE else checkpoint,
        turns=turns,
        turn_before=None if turn_before == _NONE else turn_before,
    )
