"""What a checkpoint has a host send in one user message: the state, what was said last, and the request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.dialects.values import SEPARATOR
from threadkeep.store import Record, RecordKind
from threadkeep.threads import Checkpoint, KeepEntry, StateEntry, StubEntry, decode_body


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """The state of a checkpoint, and the user's messages behind it."""

    state: str
    said: tuple[str, ...]

    def before(self, request: str) -> str:
        """Return the message that ends with this request."""
        return SEPARATOR.join((self.state, *(text for text in self.said if text != request), request))


def laid_out(records: Sequence[Record]) -> list[Laid]:
    """Return what each checkpoint of a thread lays out, by its own records."""
    bodies = {record.ordinal: record.body for record in records}
    checkpoints = [decode_body(record.body, Checkpoint) for record in records if record.kind is RecordKind.CHECKPOINT]
    return [_laid(checkpoint, bodies) for checkpoint in checkpoints]


def _laid(checkpoint: Checkpoint, bodies: dict[int, bytes]) -> Laid:
    at = next(place for place, entry in enumerate(checkpoint.layout) if isinstance(entry, StateEntry))
    state, *behind = checkpoint.layout[at:]
    assert isinstance(state, StateEntry)
    items = [
        json.loads(bodies[entry.ordinal] if isinstance(entry, KeepEntry) else bytes(entry.item))
        for entry in behind
        if isinstance(entry, KeepEntry | StubEntry)
    ]
    return Laid(
        state=json.loads(bytes(state.item))["content"],
        said=tuple(item["content"] for item in items if item["role"] == "user"),
    )
