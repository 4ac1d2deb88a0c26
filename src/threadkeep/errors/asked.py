"""What was asked for cannot be understood, or is not there."""

from __future__ import annotations

from threadkeep.errors.root import ThreadkeepError


class BadInput(ThreadkeepError):
    code = "bad_input"


class InvalidItem(BadInput):
    code = "invalid_item"

    def __init__(self, *, dialect: str, reason: str) -> None:
        super().__init__(f"this is not an item of the {dialect!r} dialect: {reason}; nothing was recorded")
        self.dialect = dialect
        self.reason = reason


class InvalidThreadId(BadInput):
    code = "invalid_thread_id"

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"{thread_id!r} cannot name a thread; use 1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit"
        )
        self.thread_id = thread_id


class InvalidPointer(BadInput):
    code = "invalid_pointer"

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a pointer; write THREAD#ORDINAL, or #ORDINAL within a thread")
        self.text = text


class InvalidTarget(BadInput):
    code = "invalid_target"

    def __init__(self, thread_id: str, reason: str) -> None:
        super().__init__(f"thread {thread_id!r}: {reason}")
        self.thread_id = thread_id


class NotEnoughTurns(InvalidTarget):
    code = "not_enough_turns"

    def __init__(self, thread_id: str, *, asked: int, turns: int) -> None:
        if turns:
            reason = f"has {turns} turn{'' if turns == 1 else 's'}, so {asked} cannot be taken back; name a number up to {turns}"
        else:
            reason = "has no turn to take back"
        super().__init__(thread_id, reason)
        self.asked = asked
        self.turns = turns


class UnknownDialect(BadInput):
    code = "unknown_dialect"

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"no dialect is called {name!r}; known: {', '.join(known)}")
        self.name = name


class UnreadableTranscript(BadInput):
    code = "unreadable_transcript"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path!r} cannot be imported: {reason}")
        self.path = path


class UnknownFormat(BadInput):
    code = "unknown_format"

    def __init__(self, path: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"nothing in {path!r} says what it is; name it with --format, one of {', '.join(known)}")
        self.path = path


class CannotExport(BadInput):
    code = "cannot_export"

    def __init__(self, thread_id: str, *, form: str, dialect: str) -> None:
        super().__init__(
            f"thread {thread_id!r} speaks {dialect!r}, and items are never translated; it cannot be written as {form!r}"
        )
        self.thread_id = thread_id


class UnknownStrategy(BadInput):
    code = "unknown_strategy"

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"no compaction strategy is called {name!r}; known: {', '.join(known)}")
        self.name = name


class NotFound(ThreadkeepError):
    code = "not_found"


class ThreadNotFound(NotFound):
    code = "thread_not_found"

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"no thread {thread_id!r} in this store; `threadkeep threads` lists those there are")
        self.thread_id = thread_id


class AmbiguousThread(NotFound):
    code = "ambiguous_thread"

    def __init__(self, prefix: str, *, matches: tuple[str, ...]) -> None:
        super().__init__(f"{prefix!r} could be any of {', '.join(matches)}; add a letter")
        self.prefix = prefix
        self.matches = matches


class EntryNotFound(NotFound):
    code = "entry_not_found"

    def __init__(self, thread_id: str, entry_id: str, *, near: tuple[str, ...]) -> None:
        there = f"there are {', '.join(near)}" if near else "it is empty so far"
        super().__init__(
            f"the session state of thread {thread_id!r} has no entry {entry_id[:40]!r}; {there}; `show --state` lists them"
        )
        self.thread_id = thread_id
        self.entry_id = entry_id
        self.near = near


class RecordNotFound(NotFound):
    code = "record_not_found"

    def __init__(self, thread_id: str, ordinal: int) -> None:
        super().__init__(f"thread {thread_id!r} has no record #{ordinal} on its path")
        self.thread_id = thread_id
        self.ordinal = ordinal
