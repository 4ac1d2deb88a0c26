"""The live path: which records still count.

A rollback leaves records behind, a fork begins in the middle of another thread, an undo cancels a checkpoint. None of them
removes anything, so what counts has to be found: from the newest record backwards, reading only *landmarks* (meta,
rollback, checkpoint, undo), never items, and no further than the newest checkpoint that survives.

`PathWalk` does no I/O: it asks for a page of landmarks, is fed one, and in the end holds a `LivePath`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.store import Record, RecordKind, Span, ThreadRow

LANDMARKS = frozenset({RecordKind.META, RecordKind.ROLLBACK, RecordKind.CHECKPOINT, RecordKind.UNDO})
# Where the path jumps: all that a whole path needs, however many checkpoints lie on it.
JUMPS = frozenset({RecordKind.META, RecordKind.ROLLBACK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The walk wants landmarks of `thread_id` with an ordinal below `stop`, newest first."""

    thread_id: str
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePath:
    """The records that count, as spans with the newest first, and the newest checkpoint among them.

    With `whole=False` the spans reach back to the checkpoint's cut and no further. A whole path reaches back to the first
    record, and looks for no checkpoint.
    """

    spans: tuple[Span, ...]
    checkpoint: Record | None
    whole: bool

    def find_thread(self, ordinal: int) -> str | None:
        """Return the thread whose record `ordinal` is on this path, if one is."""
        return next((span.thread_id for span in self.spans if span.start <= ordinal < span.stop), None)


class PathWalk:
    """Find the live path that ends before `stop` in a thread."""

    def __init__(self, thread_id: str, *, stop: int, whole: bool = False) -> None:
        self._whole = whole
        self._thread_id = thread_id
        self._upper = stop
        self._below = stop
        self._spans: list[Span] = []
        self._cancelled: set[int] = set()
        self._checkpoint: Record | None = None
        self._done = False
        self._walked = {thread_id}

    @property
    def ask(self) -> Ask | None:
        """What to read next, or None when the path is known."""
        return None if self._done else Ask(thread_id=self._thread_id, stop=self._below)

    @property
    def path(self) -> LivePath:
        return LivePath(spans=tuple(self._spans), checkpoint=self._checkpoint, whole=self._whole)

    def feed(self, row: ThreadRow, landmarks: Sequence[Record]) -> None:
        """Take the answer to `ask`: the thread's row and a page of its landmarks. An empty page means there are no more."""
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
                case RecordKind.META if landmark.ordinal == row.start:
                    self._leave(row)
                    return
                case _:
                    continue

    def _has_reached_cut(self, ordinal: int) -> bool:
        """Whether everything below `ordinal` is behind the checkpoint's cut; closes the last span if so."""
        if self._whole or self._checkpoint is None or self._checkpoint.target is None:
            return False
        if ordinal >= self._checkpoint.target:
            return False
        self._close_span(self._checkpoint.target, upper=self._checkpoint.target)
        self._done = True
        return True

    def _leave(self, row: ThreadRow) -> None:
        """The thread's beginning is reached: go on in its parent, or end."""
        if self._has_reached_cut(row.start - 1):
            return
        self._close_span(row.start, upper=min(row.start, self._upper))
        # A thread that descends from itself is damage; the walk ends with what it has, and `verify` says the rest.
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
