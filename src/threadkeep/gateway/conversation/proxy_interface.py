"""The interface between the proxy, which moves bytes, and the conversation, which decides what becomes of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from threadkeep.compaction.report import CompactionReport
from threadkeep.dialects import Reply
from threadkeep.gateway.conversation.recall_tool import RecallSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """A provider's whole answer to a request of the gateway's own."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class AnswerTooLong(ConnectionError):
    """An answer was cut off at its limit; asking again would not make it shorter."""


# Sends a body to the path of the client's request, with the client's headers, and returns the whole answer. Raises
# `ConnectionError` if the provider cannot be reached or its answer breaks off. It must not outlive the work it was given for.
AskProvider = Callable[[bytes], Awaitable[ProviderAnswer]]
# The same for another path of the provider, with headers whose values are added to the client's.
AskPath = Callable[[str, bytes, Mapping[str, str]], Awaitable[ProviderAnswer]]


class ReadPath(Protocol):
    """Reads one of a provider's paths, with the client's headers; raises as `AskProvider` does."""

    def __call__(self, path: str, *, is_at_root: bool = False) -> Awaitable[ProviderAnswer]:
        """Ask for a path of the provider's API, or, with `is_at_root`, for one beside it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A conversation request as a client sent it.

    Attributes:
        path: What follows the mount: `/responses` for `/v1/responses`.
        query: What follows the path in the URL; may hold a credential.
        headers: Names in lower case; the values of a repeated header are joined by `, `. Holds the client's credentials.
        body: The request as it arrived, decompressed.
        ask_provider: Sends another body to the provider, as this client; None where that is not possible.
        ask_path: Sends one to another path.
        read_path: Reads one.
        placed: Called with the thread's id once the request is recorded.
        is_resumable: Whether the client goes on by naming the answer, whatever the request says; so do all on a socket.
        conversation: The id of the conversation that the client names in place of its history; empty where it names none.
    """

    path: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    ask_provider: AskProvider | None = field(default=None, repr=False)
    ask_path: AskPath | None = field(default=None, repr=False)
    read_path: ReadPath | None = field(default=None, repr=False)
    placed: Callable[[str], None] | None = field(default=None, repr=False)
    is_resumable: bool = False
    conversation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Smaller:
    """A smaller request in place of one that did not fit; `headers` replace the client's own of these names."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """What is answered where the provider lacks what it is asked for.

    `render` makes the whole answer, in the form that was asked for. `has_begun` says whether the beginning of a streamed answer
    is what was asked for; None while it does not tell.
    """

    render: Callable[[], Awaitable[bytes]]
    has_begun: Callable[[bytes], bool | None] | None = None


# Makes a request smaller that its provider refused for its size; None where it cannot be made smaller.
Shrink = Callable[[], Awaitable[Smaller | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Send `body` to the provider and relay its answer untouched.

    `finished` is awaited exactly once, with what the provider answered, before the last bytes of the answer are relayed:
    what it makes durable is durable before the client can act on the answer. When no whole answer came, the reply's
    outcome is `cut` (the stream broke, or the client left) or `failed` (the provider refused or could not be reached).
    A `ThreadkeepError` it raises is logged and counted; the answer still goes out.

    `overflowed` is awaited at most once, when the provider refuses the request because it does not fit the model's window and
    nothing was relayed yet: what it returns is sent instead; None relays the refusal. `headers` replace or join the
    client's own on the way to the provider. `recall` answers calls of the recall tool, and says what the provider is asked next.
    `substitute` is answered if the provider lacks what it is asked for. `unmanaged` makes the request anew for a provider that
    refuses to manage its history.
    """

    body: bytes = field(repr=False)
    finished: Callable[[Reply], Awaitable[None]]
    overflowed: Shrink | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    recall: RecallSession | None = field(default=None, repr=False)
    substitute: Substitute | None = None
    unmanaged: Shrink | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The gateway answers by itself with one assistant message, streamed if the request asked for a stream.

    `finished` is awaited with that answer before it is sent.
    """

    text: str = field(repr=False)
    finished: Callable[[Reply], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The gateway answers by itself with an error in the provider's shape; `code` is for machines."""

    status: int
    code: str
    message: str


class Conversations(Protocol):
    """What stands behind the proxy: it decides what becomes of a conversation request."""

    async def open(self, incoming: Incoming) -> Forward | Answered | Refused:
        """Decide what to do with a request.

        Runs to its end even if the client leaves meanwhile; after `Forward`, `finished` is then called with outcome `cut`.

        Raises:
            ThreadkeepError: The request could not be dealt with; the proxy forwards it unchanged and records nothing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWish:
    """What a host asks for: compact its history now, or once it holds `limit_tokens`."""

    compact: bool = False
    focus: str | None = None
    limit_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWindow:
    """The window of a host's history, in `body`.

    Attributes:
        checkpoint: The ordinal of its checkpoint, if it has one.
        state: The session state of that checkpoint.
        report: The compaction that was made just now, if one was.
        trouble: Why a compaction that was due failed.
        answer: The answer to a command of the user; the window holds nothing of it.
    """

    thread_id: str
    checkpoint: int | None
    tokens: int
    body: bytes
    state: str | None
    report: CompactionReport | None = None
    trouble: str | None = None
    answer: str | None = None


class HostConversations(Protocol):
    """Conversations of hosts that talk to their providers without the gateway; one tenant, one dialect."""

    async def lay_out(self, incoming: Incoming, wish: HostWish) -> HostWindow:
        """Record a history and return its window. Durable when it returns.

        Raises:
            BadInput: The body holds no history.
            CompactionError, Conflict: It could not be compacted as asked; it is recorded all the same.
            CompactionStopped: A hook wants the turn to end.
        """
        ...


def merge_header_lists(headers: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of `more`, whose values are lists, each with the values that `headers` has for it in front."""
    merged = {}
    for name, added in more.items():
        values = [value for value in headers.get(name, "").split(",") if value]
        merged[name] = ",".join([*values, *(value for value in added.split(",") if value not in map(str.strip, values))])
    return merged
