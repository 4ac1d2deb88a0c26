"""The live path: the records of a thread that still count.

A rollback leaves records behind, a fork begins inside another thread, an undo cancels a checkpoint, and a client that rewrites
its history begins a new chain. None of them removes a record. `PathWalk` finds the path from the newest record backwards. It
reads only *landmarks* (meta, rollback, checkpoint, undo), never items, and stops at the newest checkpoint that counts. It does
no I/O: the caller feeds it pages of landmarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.store import Record, RecordKind, Span, ThreadRow

LANDMARKS = frozenset({RecordKind.META, RecordKind.ROLLBACK, RecordKind.CHECKPOINT, RecordKind.UNDO})
# The landmarks of a whole path.
JUMPS = frozenset({RecordKind.META, RecordKind.ROLLBACK})


def is_rewrite_mark(record: Record) -> bool:
    """Whether the client rewrote its history here: the chain begins anew, and the window holds nothing from before."""
    return record.kind is RecordKind.META and record.target is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for landmarks of `thread_id` with an ordinal below `stop`, newest first."""

    thread_id: str
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePath:
    """The records that count, as spans, newest first, and the newest checkpoint.

    The spans reach back to the checkpoint's cut, or to where the client rewrote its history (`rewritten`); with `whole` they
    reach back to the first record, and neither is set.
    """

    spans: tuple[Span, ...]
    checkpoint: Record | None
    whole: bool
    rewritten: Record | None = None

    def find_thread(self, ordinal: int) -> str | None:
        """Return the thread that holds record `ordinal` of this path; None if the path lacks it."""
        return next((span.thread_id for span in self.spans if span.start <= ordinal < span.stop), None)


class PathWalk:
    """Finds the live path of a thread that ends before `stop`."""

    def __init__(self, thread_id: str, *, stop: int, whole: bool = False) -> None:
        self._whole = whole
        self._thread_id = thread_id
        self._upper = stop
        self._below = stop
        self._spans: list[Span] = []
        self._cancelled: set[int] = set()
        self._checkpoint: Record | None = None
        self._rewritten: Record | None = None
        self._done = False
        self._walked = {thread_id}

    @property
    def ask(self) -> Ask | None:
        """What to read next; None once the path is complete."""
        return None if self._done else Ask(thread_id=self._thread_id, stop=self._below)

    @property
    def path(self) -> LivePath:
        return LivePath(spans=tuple(self._spans), checkpoint=self._checkpoint, whole=self._whole, rewritten=self._rewritten)

    def feed(self, row: ThreadRow, landmarks: Sequence[Record]) -> None:
        """Take the thread's row and a page of the landmarks asked for; an empty page means there are no more."""
        if not landmarks:
            self._leave(row)
            return
        for landmark in landmarks:
            self._below = min(self._below, landmark.ordinal)
            if landmark.ordinal >= self._upper:
                continue
            if self._has_reached_cut(landmark.ordinal):
                return
            match landmark.kind:
                case RecordKind.UNDO if landmark.target is not None:
                    self._cancelled.add(landmark.target)
                case RecordKind.CHECKPOINT:
                    if self._checkpoint is None and landmark.ordinal not in self._cancelled:
                        self._checkpoint = landmark
                case RecordKind.ROLLBACK if landmark.target is not None:
                    self._close_span(landmark.ordinal, upper=landmark.target)
                    if landmark.target <= row.start:
                        self._leave(row)
                        return
                case RecordKind.META if is_rewrite_mark(landmark) and not self._whole:
                    self._close_span(landmark.ordinal, upper=landmark.ordinal)
                    self._rewritten, self._done = landmark, True
                    return
                case RecordKind.META if landmark.ordinal == row.start:
                    self._leave(row)
                    return
                case _:
                    continue

    def _has_reached_cut(self, ordinal: int) -> bool:
        """Whether everything up to `ordinal` is before the checkpoint's cut; if so, close the last span."""
        if self._whole or self._checkpoint is None or self._checkpoint.target is None:
            return False
        if ordinal >= self._checkpoint.target:
            return False
        self._close_span(self._checkpoint.target, upper=self._checkpoint.target)
        self._done = True
        return True

    def _leave(self, row: ThreadRow) -> None:
        """Continue in the parent thread, or end the walk."""
        if self._has_reached_cut(row.start - 1):
            return
        self._close_span(row.start, upper=min(row.start, self._upper))
        # A thread that descends from itself is damaged: the walk ends here, and `verify` reports it.
        if row.parent is None or row.parent in self._walked:
            self._done = True
        else:
            self._walked.add(row.parent)
            self._thread_id, self._below = row.parent, self._upper

    def _close_span(self, start: int, *, upper: int) -> None:
        if start < self._upper:
            self._spans.append(Span(thread_id=self._thread_id, start=start, stop=self._upper))
        self._upper = upper
        self._below = min(self._below, upper)
