"""Every failure threadkeep can name, as one tree.

    ThreadkeepError
    ├── BadInput
    │   ├── InvalidItem          an item is not a JSON object of its dialect
    │   ├── InvalidThreadId      a name that cannot be a thread's id
    │   ├── InvalidPointer       not of the form THREAD#ORDINAL
    │   ├── InvalidTarget        a fork or rollback to a record that does not exist
    │   │   └── NotEnoughTurns   a rollback of more turns than the thread has
    │   ├── UnknownDialect
    │   ├── UnusableFile         a file that cannot be read, written or understood
    │   │   └── UnreadableTranscript  a file to import
    │   ├── UnknownFormat        a file to import of no known format
    │   ├── CannotExport         a format that the thread's dialect cannot be written in
    │   ├── UnknownStrategy
    │   ├── InvalidSetting       a setting of threadkeep with a wrong name, value or place
    │   ├── InvalidArgument      a value given to a command, tool, form or function
    │   ├── InvalidTool          a function that cannot be a tool
    │   ├── UneditableSettings   settings of a client that cannot be changed as text
    │   ├── MissingExtra         an optional package that is not installed
    │   └── WrongLoop            a call that would wait for the event loop it runs on
    ├── NotFound
    │   ├── ThreadNotFound
    │   ├── AmbiguousThread      a prefix that several threads share
    │   ├── EntryNotFound        the session state has no entry of that id
    │   └── RecordNotFound
    ├── Conflict
    │   ├── OrdinalConflict      another writer appended first
    │   ├── ThreadExists
    │   ├── CopyConflict         a thread that differs between two stores
    │   ├── StaleCheckpoint      the span a compaction replaced left the live path, or something of it was erased
    │   ├── CompactionRunning    another worker holds the thread's lease
    │   ├── TurnRunning          another host runs the thread's turn
    │   └── TurnTakenOver        another host took this one's turn over
    ├── CompactionError
    │   ├── NothingToCompact     too little has happened since the last checkpoint
    │   ├── NothingToUndo
    │   ├── CompactionStopped    by a hook
    │   └── BrokenWindow         the structural validator refused a checkpoint
    ├── ModelError
    │   ├── UnknownModel         not of the form openai:NAME, anthropic:NAME or NAME@URL, or its credential is missing
    │   ├── ModelOverflow        the request does not fit the model's window
    │   ├── ModelUnavailable     unreachable, overloaded or cut off; asking again may help
    │   └── ModelRejected        the provider refused the request
    ├── GatewayError
    │   ├── UnsafeBind           a public address without keys
    │   ├── PortTaken
    │   ├── CannotListen         the address or port is not available
    │   ├── CannotKeepToken      the control API's token cannot be read or written
    │   ├── NoServiceManager     no systemd user session and no launchd
    │   └── ServiceFailed        systemctl or launchctl refused
    ├── LaunchError
    │   ├── ClientMissing        the client to launch is not installed
    │   ├── CannotLaunch         the client's settings rule out a gateway
    │   └── GatewayNotStarted    the gateway for the client did not start
    └── StoreError
        ├── StoreMissing         there is no store yet, and reading does not create one
        ├── StoreBusy            another process holds the write lock
        ├── StoreUnreachable     a server does not answer, or refuses the login
        ├── StoreFull
        ├── StoreReadOnly
        ├── StoreForeign         the file belongs to another program
        ├── StoreTooNew          written by a newer threadkeep
        ├── StoreCorrupt
        └── StoreClosed

`code` is stable and for machines; the message is one sentence for people: what, which, what next.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec


class ThreadkeepError(Exception):
    """The root of the tree; catch it to catch everything threadkeep raises on purpose.

    The code of a class is its name in snake case: `store_full` for `StoreFull`.
    """

    code: ClassVar[str] = "threadkeep_error"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


class BadInput(ThreadkeepError):
    """What was given cannot be used."""


class InvalidItem(BadInput):
    def __init__(self, *, dialect: str, reason: str) -> None:
        super().__init__(f"this is not an item of the {dialect!r} dialect: {reason}; nothing was recorded, mend it first")
        self.dialect = dialect
        self.reason = reason


class InvalidThreadId(BadInput):
    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"{thread_id!r} cannot name a thread; use 1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit"
        )
        self.thread_id = thread_id


class InvalidPointer(BadInput):
    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a pointer; write THREAD#ORDINAL, or #ORDINAL within a thread")
        self.text = text


class InvalidTarget(BadInput):
    def __init__(self, thread_id: str, reason: str) -> None:
        super().__init__(f"thread {thread_id!r}: {reason}")
        self.thread_id = thread_id


class NotEnoughTurns(InvalidTarget):
    def __init__(self, thread_id: str, *, asked: int, turns: int) -> None:
        if turns:
            reason = f"has {turns} turn{'' if turns == 1 else 's'}, so {asked} cannot be taken back; name a number up to {turns}"
        else:
            reason = "has no turn to take back"
        super().__init__(thread_id, reason)
        self.asked = asked
        self.turns = turns


class UnknownDialect(BadInput):
    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"no dialect is called {name!r}; known: {', '.join(known)}")
        self.name = name


class UnusableFile(BadInput):
    """`reason` says what cannot be done with it and why, and what to do."""

    def __init__(self, path: str, *, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason


class UnreadableTranscript(UnusableFile):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(repr(path), reason=f"cannot be imported: {reason}")
        self.path = path


class UnknownFormat(BadInput):
    def __init__(self, path: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"{path!r} is of no known format; name it with --format, one of {', '.join(known)}")
        self.path = path


class CannotExport(BadInput):
    def __init__(self, thread_id: str, *, form: str, dialect: str) -> None:
        super().__init__(
            f"thread {thread_id!r} speaks {dialect!r}, and items are never translated; "
            f"it cannot be written as {form!r}, write it as jsonl, markdown or {dialect}"
        )
        self.thread_id = thread_id


class UnknownStrategy(BadInput):
    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(f"no compaction strategy is called {name!r}; known: {', '.join(known)}")
        self.name = name


class InvalidSetting(BadInput):
    """`name` is the setting and `origin` the file, variable or flag it came from, empty if it is not known here."""

    def __init__(self, name: str, text: str, *, origin: str = "") -> None:
        super().__init__(text)
        self.name = name
        self.origin = origin


class InvalidArgument(BadInput):
    """`name` is the argument; the text says what is wrong with it and what to give instead."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class InvalidTool(BadInput):
    def __init__(self, name: str, *, reason: str) -> None:
        super().__init__(f"tool {name!r} {reason}")
        self.name = name
        self.reason = reason


class UneditableSettings(BadInput):
    """`place` is a line or the path of a value; empty for the whole text."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place


class MissingExtra(BadInput):
    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(f"{feature} needs a package that is not installed; pip install 'threadkeep[{extra}]'")
        self.extra = extra


class WrongLoop(BadInput):
    """A caller blocks, or would block, the event loop that its call needs."""


class NotFound(ThreadkeepError):
    """What was named is not there."""


class ThreadNotFound(NotFound):
    def __init__(self, thread_id: str) -> None:
        super().__init__(f"no thread {thread_id!r} in this store; `threadkeep threads` lists those there are")
        self.thread_id = thread_id


class AmbiguousThread(NotFound):
    def __init__(self, prefix: str, *, matches: tuple[str, ...]) -> None:
        super().__init__(f"{prefix!r} could be any of {', '.join(matches)}; add a letter")
        self.prefix = prefix
        self.matches = matches


class EntryNotFound(NotFound):
    def __init__(self, thread_id: str, entry_id: str, *, near: tuple[str, ...]) -> None:
        there = f"there are {', '.join(near)}" if near else "it is empty so far"
        super().__init__(
            f"the session state of thread {thread_id!r} has no entry {entry_id[:40]!r}; {there}; `show --state` lists them"
        )
        self.thread_id = thread_id
        self.entry_id = entry_id
        self.near = near


class RecordNotFound(NotFound):
    def __init__(self, thread_id: str, ordinal: int) -> None:
        super().__init__(
            f"thread {thread_id!r} has no record #{ordinal} on its path; `threadkeep show {thread_id} --records` lists them"
        )
        self.thread_id = thread_id
        self.ordinal = ordinal


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recorded attempt at a compaction: its strategy, its outcome (`taken`, or an error code) and its cost.

    Tokens and cost are the provider's figures over all calls, None if it gave none. `ignored` counts operations of the draft that
    named an entry that does not exist.
    """

    strategy: str
    outcome: str
    model: str | None = None
    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_micro_usd: int | None = None
    ignored: int = 0
    took_ms: int = 0


class Conflict(ThreadkeepError):
    """Something else happened first."""


class OrdinalConflict(Conflict):
    def __init__(self, thread_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"thread {thread_id!r} is at ordinal {actual}, not {expected}; reload it and append again")
        self.thread_id = thread_id
        self.expected = expected
        self.actual = actual


class ThreadExists(Conflict):
    def __init__(self, thread_id: str) -> None:
        super().__init__(f"a thread {thread_id!r} is already there; resume it or choose another name")
        self.thread_id = thread_id


class CopyConflict(Conflict):
    def __init__(self, thread_id: str, *, ordinal: int, reason: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is in both stores and {reason} at #{ordinal}; nothing of it was changed, "
            "copy into a store that does not have it"
        )
        self.thread_id = thread_id
        self.ordinal = ordinal


class StaleCheckpoint(Conflict):
    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} changed under the compaction: its span left the live path, or something of it was erased; "
            "nothing was written, compact again"
        )
        self.thread_id = thread_id
        self.attempts: tuple[Attempt, ...] = ()


class CompactionRunning(Conflict):
    def __init__(self, thread_id: str) -> None:
        super().__init__(f"thread {thread_id!r} is being compacted by another worker; its checkpoint will appear when it is done")
        self.thread_id = thread_id


class TurnRunning(Conflict):
    def __init__(self, thread_id: str) -> None:
        super().__init__(f"another host is running a turn of thread {thread_id!r}; send it mail, or try again")
        self.thread_id = thread_id


class TurnTakenOver(Conflict):
    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"another host took over the turn of thread {thread_id!r} while this one was silent; "
            "leave it there, or reload the thread and open a new turn"
        )
        self.thread_id = thread_id


class CompactionError(ThreadkeepError):
    """A compaction was not made."""


class NothingToCompact(CompactionError):
    def __init__(self, thread_id: str, *, reason: str) -> None:
        super().__init__(f"thread {thread_id!r} has nothing to compact: {reason}")
        self.thread_id = thread_id
        self.reason = reason
        self.attempts: tuple[Attempt, ...] = ()


class NothingToUndo(CompactionError):
    def __init__(self, thread_id: str, missing: str = "checkpoint on its live path to undo") -> None:
        super().__init__(f"thread {thread_id!r} has no {missing}")
        self.thread_id = thread_id


class CompactionStopped(CompactionError):
    def __init__(self, thread_id: str, *, event: str, reason: str) -> None:
        kept = "nothing was changed" if event == "PreCompact" else "the compaction is kept"
        super().__init__(f"a {event} hook stopped the turn of thread {thread_id!r}: {reason}; {kept}")
        self.thread_id = thread_id
        self.event = event
        self.reason = reason


class BrokenWindow(CompactionError):
    def __init__(self, thread_id: str, *, faults: tuple[str, ...]) -> None:
        super().__init__(
            f"thread {thread_id!r}: the compacted window is not well formed ({'; '.join(faults)}); nothing was written, "
            "use another strategy"
        )
        self.thread_id = thread_id
        self.faults = faults
        self.attempts: tuple[Attempt, ...] = ()


class ModelError(ThreadkeepError):
    """A model gave no answer."""


class UnknownModel(ModelError):
    def __init__(self, name: str, *, reason: str) -> None:
        super().__init__(f"{name!r} names no model that can be asked: {reason}")
        self.name = name
        self.reason = reason


class ModelOverflow(ModelError):
    def __init__(self, name: str, *, limit_tokens: int | None = None) -> None:
        limit = f" of {limit_tokens} tokens" if limit_tokens else ""
        super().__init__(f"the request does not fit the window{limit} of {name}; send less")
        self.name = name
        self.limit_tokens = limit_tokens


class ModelUnavailable(ModelError):
    def __init__(self, name: str, *, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{name} gave no complete answer: {reason}; ask again later")
        self.name = name
        self.reason = reason
        self.retry_after_s = retry_after_s


class ModelRejected(ModelError):
    def __init__(self, name: str, *, status: int, reason: str) -> None:
        super().__init__(f"{name} refused this request (HTTP {status}): {reason}; check the model, its key and what is sent")
        self.name = name
        self.status = status
        self.reason = reason


class LaunchError(ThreadkeepError):
    """A client was not started."""


class ClientMissing(LaunchError):
    def __init__(self, command: str, *, install: str | None = None) -> None:
        what_next = f"install it with `{install}`" if install else "check the name, or install it"
        super().__init__(f"there is no command {command!r} on your PATH; {what_next}")
        self.command = command


class CannotLaunch(LaunchError):
    def __init__(self, client: str, *, reason: str) -> None:
        super().__init__(f"{client} was not started: {reason}")
        self.client = client
        self.reason = reason


class GatewayNotStarted(LaunchError):
    def __init__(self, *, reason: str, log: str) -> None:
        super().__init__(f"the gateway did not start: {reason}; its log is {log}")
        self.reason = reason
        self.log = log


class GatewayError(ThreadkeepError):
    """The gateway cannot run."""


class UnsafeBind(GatewayError):
    def __init__(self, host: str) -> None:
        super().__init__(f"refusing to listen on {host}: anyone there could read every thread; use 127.0.0.1 or ::1, or --keys")
        self.host = host


class PortTaken(GatewayError):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is in use; stop what listens there or choose another --port")
        self.host = host
        self.port = port


class CannotListen(GatewayError):
    def __init__(self, host: str, port: int, *, reason: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {reason}; choose another --host or --port")
        self.host = host
        self.port = port


class CannotKeepToken(GatewayError):
    def __init__(self, path: str, *, reason: str) -> None:
        super().__init__(f"the control API's token cannot be kept in {path}: {reason}; give one with THREADKEEP_CONTROL_TOKEN")
        self.path = path
        self.reason = reason


class NoServiceManager(GatewayError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"the gateway cannot be installed as a service: {reason}; run `threadkeep serve` yourself instead")
        self.reason = reason


class ServiceFailed(GatewayError):
    def __init__(self, command: str, *, reason: str) -> None:
        super().__init__(f"`{command}` failed: {reason or 'it said nothing'}; `threadkeep service status` shows what is there")
        self.command = command
        self.reason = reason


class StoreError(ThreadkeepError):
    """Something about the store itself; `location` says which one."""

    def __init__(self, location: str, text: str) -> None:
        super().__init__(f"store {location}: {text}")
        self.location = location


class StoreMissing(StoreError):
    def __init__(self, location: str) -> None:
        super().__init__(
            location, "there is no such store yet; `threadkeep serve` or the library makes one when it first records"
        )


class StoreBusy(StoreError):
    def __init__(self, location: str) -> None:
        super().__init__(location, "another process kept the write lock too long; nothing was written, try again")


class StoreUnreachable(StoreError):
    def __init__(self, location: str, reason: str) -> None:
        super().__init__(location, f"its server is unreachable or refuses the login ({reason}); nothing was written, check both")
        self.reason = reason


class StoreFull(StoreError):
    def __init__(self, location: str) -> None:
        super().__init__(location, "the disk is full; nothing was written, free some space and try again")


class StoreReadOnly(StoreError):
    def __init__(self, location: str) -> None:
        super().__init__(location, "the file or its folder cannot be written; check its permissions")


class StoreForeign(StoreError):
    def __init__(self, location: str) -> None:
        super().__init__(location, "this file was not made by threadkeep; it was left untouched, choose another path")


class StoreTooNew(StoreError):
    def __init__(self, location: str, *, found: int, known: int) -> None:
        super().__init__(location, f"its schema is version {found}, this threadkeep knows {known}; upgrade threadkeep")
        self.found = found
        self.known = known


class StoreCorrupt(StoreError):
    def __init__(self, location: str, detail: str) -> None:
        super().__init__(location, f"the file is damaged ({detail}); keep a copy, then run `threadkeep verify`")
        self.detail = detail


class StoreClosed(StoreError):
    def __init__(self, location: str) -> None:
        super().__init__(location, "it is closed; open it again")
