"""Another writer, a compaction, or a model it asks, stands in the way."""

from __future__ import annotations

from typing import Protocol

from threadkeep.errors.root import ThreadkeepError


class DraftAttempt(Protocol):
    """One strategy that was tried before the error: what became of it, and what asking a model for it cost.

    Tokens and cost are None where the provider told nothing of them.
    """

    @property
    def strategy(self) -> str: ...

    @property
    def outcome(self) -> str: ...

    @property
    def model(self) -> str | None: ...

    @property
    def calls(self) -> int: ...

    @property
    def input_tokens(self) -> int | None: ...

    @property
    def output_tokens(self) -> int | None: ...

    @property
    def cached_tokens(self) -> int | None: ...

    @property
    def cost_micro_usd(self) -> int | None: ...

    @property
    def ignored(self) -> int: ...

    @property
    def took_ms(self) -> int: ...


class Conflict(ThreadkeepError):
    code = "conflict"


class OrdinalConflict(Conflict):
    code = "ordinal_conflict"

    def __init__(self, thread_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"thread {thread_id!r} is at ordinal {actual}, not {expected}; reload it and append again")
        self.thread_id = thread_id
        self.expected = expected
        self.actual = actual


class ThreadExists(Conflict):
    code = "thread_exists"

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"a thread {thread_id!r} is already there; resume it or choose another name")
        self.thread_id = thread_id


class CopyConflict(Conflict):
    code = "copy_conflict"

    def __init__(self, thread_id: str, *, ordinal: int, reason: str) -> None:
        super().__init__(f"thread {thread_id!r} is in both stores and {reason} at #{ordinal}; nothing of it was changed")
        self.thread_id = thread_id
        self.ordinal = ordinal


class StaleCheckpoint(Conflict):
    code = "stale_checkpoint"

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} changed under the compaction: its span left the live path, or something of it was erased; "
            "nothing was written, compact again"
        )
        self.thread_id = thread_id
        self.attempts: tuple[DraftAttempt, ...] = ()


class CompactionRunning(Conflict):
    code = "compaction_running"

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"thread {thread_id!r} is being compacted by another worker; its checkpoint will appear when it is done")
        self.thread_id = thread_id


class TurnRunning(Conflict):
    code = "turn_running"

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"a turn of thread {thread_id!r} is being run by another host; deliver what you have to say as mail, or try again"
        )
        self.thread_id = thread_id


class TurnTakenOver(Conflict):
    code = "turn_taken_over"

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"the turn of thread {thread_id!r} went on in another host while nothing was heard of this one; "
            "leave it there, or reload the thread and open a turn of your own"
        )
        self.thread_id = thread_id


class CompactionError(ThreadkeepError):
    code = "compaction_error"


class NothingToCompact(CompactionError):
    code = "nothing_to_compact"

    def __init__(self, thread_id: str, *, reason: str) -> None:
        super().__init__(f"thread {thread_id!r} has nothing to compact: {reason}")
        self.thread_id = thread_id
        self.reason = reason
        self.attempts: tuple[DraftAttempt, ...] = ()


class NothingToUndo(CompactionError):
    code = "nothing_to_undo"

    def __init__(self, thread_id: str, missing: str = "checkpoint on its live path to undo") -> None:
        super().__init__(f"thread {thread_id!r} has no {missing}")
        self.thread_id = thread_id


class CompactionStopped(CompactionError):
    code = "compaction_stopped"

    def __init__(self, thread_id: str, *, event: str, reason: str) -> None:
        kept = "nothing was changed" if event == "PreCompact" else "the compaction is kept"
        super().__init__(f"a {event} hook stopped the turn of thread {thread_id!r}: {reason}; {kept}")
        self.thread_id = thread_id
        self.event = event
        self.reason = reason


class BrokenWindow(CompactionError):
    code = "broken_window"

    def __init__(self, thread_id: str, *, faults: tuple[str, ...]) -> None:
        super().__init__(
            f"thread {thread_id!r}: the compacted window is not well formed ({'; '.join(faults)}); nothing was written"
        )
        self.thread_id = thread_id
        self.faults = faults
        self.attempts: tuple[DraftAttempt, ...] = ()


class ModelError(ThreadkeepError):
    code = "model_error"


class UnknownModel(ModelError):
    code = "unknown_model"

    def __init__(self, name: str, *, reason: str) -> None:
        super().__init__(f"{name!r} names no model that can be asked: {reason}")
        self.name = name
        self.reason = reason


class ModelOverflow(ModelError):
    code = "model_overflow"

    def __init__(self, name: str, *, limit_tokens: int | None = None) -> None:
        limit = f" of {limit_tokens} tokens" if limit_tokens else ""
        super().__init__(f"the request does not fit the window{limit} of {name}; send less")
        self.name = name
        self.limit_tokens = limit_tokens


class ModelUnavailable(ModelError):
    code = "model_unavailable"

    def __init__(self, name: str, *, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{name} gave no whole answer: {reason}; ask again later")
        self.name = name
        self.reason = reason
        self.retry_after_s = retry_after_s


class ModelRejected(ModelError):
    code = "model_rejected"

    def __init__(self, name: str, *, status: int, reason: str) -> None:
        super().__init__(f"{name} will not take this request (HTTP {status}): {reason}")
        self.name = name
        self.status = status
        self.reason = reason
