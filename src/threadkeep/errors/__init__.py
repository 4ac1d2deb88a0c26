"""Every failure threadkeep can name, as one tree.

    ThreadkeepError
    ├── BadInput
    │   ├── InvalidItem          an item is not a JSON object of its dialect
    │   ├── InvalidThreadId      a name that cannot be a thread's id
    │   ├── InvalidPointer       not of the form THREAD#ORDINAL
    │   ├── InvalidTarget        a fork or rollback names a place that is not there
    │   │   └── NotEnoughTurns   a rollback of more turns than the thread has
    │   ├── UnknownDialect
    │   ├── UnreadableTranscript  a file to import that cannot be opened, or read to its end
    │   ├── UnknownFormat        a file to import that nothing in it explains
    │   ├── CannotExport         a thread in a form its items do not have
    │   └── UnknownStrategy
    ├── NotFound
    │   ├── ThreadNotFound
    │   ├── AmbiguousThread      a prefix that several threads share
    │   ├── EntryNotFound        the session state has no entry of that id
    │   └── RecordNotFound
    ├── Conflict
    │   ├── OrdinalConflict      another writer appended first
    │   ├── ThreadExists
    │   ├── CopyConflict         a thread that is in both stores, and not the same
    │   ├── StaleCheckpoint      the span a compaction replaced left the live path, or something of it was erased
    │   ├── CompactionRunning    another worker holds the thread's lease
    │   ├── TurnRunning          another host runs the thread's turn
    │   └── TurnTakenOver        and it took it over from this one
    ├── CompactionError
    │   ├── NothingToCompact     too little has happened since the last checkpoint
    │   ├── NothingToUndo
    │   ├── CompactionStopped    a hook said so
    │   └── BrokenWindow         the structural validator refused a checkpoint
    ├── ModelError
    │   ├── UnknownModel         not of the form openai:NAME, anthropic:NAME or NAME@URL, or its extra is missing
    │   ├── ModelOverflow        the request does not fit the model's window
    │   ├── ModelUnavailable     unreachable, overloaded or cut off; asking again may help
    │   └── ModelRejected        the provider will not take the request
    ├── GatewayError
    │   ├── UnsafeBind           a public address without keys
    │   ├── PortTaken
    │   ├── CannotListen         the address or port is not to be had
    │   ├── CannotKeepToken      the control API's token can be neither read nor written
    │   ├── NoServiceManager     no systemd user session and no launchd
    │   └── ServiceFailed        systemctl or launchctl refused
    ├── LaunchError
    │   ├── ClientMissing        the client to launch is not installed
    │   ├── CannotLaunch         the client is set up in a way that no gateway can serve
    │   └── GatewayNotStarted    the gateway for the client did not come up
    └── StoreError
        ├── StoreMissing         nothing is there yet, and looking does not create it
        ├── StoreBusy            another process holds the write lock
        ├── StoreUnreachable     a server that does not answer, or will not have us
        ├── StoreFull
        ├── StoreReadOnly
        ├── StoreForeign         the file belongs to another program
        ├── StoreTooNew          written by a newer threadkeep
        ├── StoreCorrupt
        └── StoreClosed

`code` is stable and for machines; the message is one sentence for people: what, which, what next.
"""

from __future__ import annotations

from threadkeep.errors.asked import (
    AmbiguousThread,
    BadInput,
    CannotExport,
    EntryNotFound,
    InvalidItem,
    InvalidPointer,
    InvalidTarget,
    InvalidThreadId,
    NotEnoughTurns,
    NotFound,
    RecordNotFound,
    ThreadNotFound,
    UnknownDialect,
    UnknownFormat,
    UnknownStrategy,
    UnreadableTranscript,
)
from threadkeep.errors.compacting import (
    BrokenWindow,
    CompactionError,
    CompactionRunning,
    CompactionStopped,
    Conflict,
    CopyConflict,
    ModelError,
    ModelOverflow,
    ModelRejected,
    ModelUnavailable,
    NothingToCompact,
    NothingToUndo,
    OrdinalConflict,
    StaleCheckpoint,
    ThreadExists,
    TurnRunning,
    TurnTakenOver,
    UnknownModel,
)
from threadkeep.errors.launch import CannotLaunch, ClientMissing, GatewayNotStarted, LaunchError
from threadkeep.errors.root import ThreadkeepError
from threadkeep.errors.serving import (
    CannotKeepToken,
    CannotListen,
    GatewayError,
    NoServiceManager,
    PortTaken,
    ServiceFailed,
    UnsafeBind,
)
from threadkeep.errors.storing import (
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreachable,
)

__all__ = [
    "AmbiguousThread",
    "BadInput",
    "BrokenWindow",
    "CannotExport",
    "CannotKeepToken",
    "CannotLaunch",
    "CannotListen",
    "ClientMissing",
    "CompactionError",
    "CompactionRunning",
    "CompactionStopped",
    "Conflict",
    "CopyConflict",
    "EntryNotFound",
    "GatewayError",
    "GatewayNotStarted",
    "InvalidItem",
    "InvalidPointer",
    "InvalidTarget",
    "InvalidThreadId",
    "LaunchError",
    "ModelError",
    "ModelOverflow",
    "ModelRejected",
    "ModelUnavailable",
    "NoServiceManager",
    "NotEnoughTurns",
    "NotFound",
    "NothingToCompact",
    "NothingToUndo",
    "OrdinalConflict",
    "PortTaken",
    "RecordNotFound",
    "ServiceFailed",
    "StaleCheckpoint",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreForeign",
    "StoreFull",
    "StoreMissing",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnreachable",
    "ThreadExists",
    "ThreadNotFound",
    "ThreadkeepError",
    "TurnRunning",
    "TurnTakenOver",
    "UnknownDialect",
    "UnknownFormat",
    "UnknownModel",
    "UnknownStrategy",
    "UnreadableTranscript",
    "UnsafeBind",
]
