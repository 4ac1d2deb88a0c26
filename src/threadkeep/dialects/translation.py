"""A request and an answer in no language, for a client whose provider speaks another language than its own.

Only what goes over the wire to the provider is translated; what is recorded stays what the client sent. A client's language reads
its requests and writes its answers here (`ClientForm`), a provider's language does the opposite (`UpstreamForm`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, Self

from threadkeep.dialects.raw_json import Json
from threadkeep.dialects.values import Answer, Request
from threadkeep.items import ToolCall

# What seals thinking that was read in plain text, before the name of the field it stood in: only such thinking is sent back.
THOUGHT_SEAL: Final = "threadkeep:"
# A tool without a schema takes one text, in this argument.
FREE_TEXT: Final = "input"

PartKind = Literal["text", "refusal", "thought", "call"]
# Why an answer ended, and the reasons that mean that more was to come.
StopReason = Literal["stop", "tool_calls", "length", "content_filter"]
CUT_SHORT: Final = frozenset({"length", "content_filter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image by its address, which may hold all of it."""

    url: str
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a tool returned."""

    call_id: str
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one side said at once. `thought` is the model's thinking, as (field, text); calls name tools by their wire names."""

    role: Literal["system", "user", "assistant"]
    content: tuple[str | Image, ...] = ()
    thought: tuple[str, str] | None = None
    calls: tuple[ToolCall, ...] = ()
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as the client knows it. `kind` is the type of its calls; one without `parameters` takes free text."""

    name: str
    kind: str = "function"
    namespace: str = ""
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    is_strict: bool = False

    @property
    def wire_name(self) -> str:
        return make_wire_name(self.name, namespace=self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRequest:
    """A request in no language. A field that is None was not set.

    Attributes:
        tools: The tools by their wire names.
        tool_choice: `auto`, `none`, `required`, or the wire name of a tool in a tuple.
        schema: The form of the answer: an empty one is any JSON object.
        shows_thoughts: Whether the client wants to see what the model thinks.
        dropped: What cannot be said to the provider, and might matter.
    """

    model: str
    is_streamed: bool
    messages: tuple[Message, ...]
    tools: Mapping[str, Tool] = field(default_factory=dict)
    tool_choice: str | tuple[str] | None = None
    is_parallel: bool | None = None
    max_tokens: int | None = None
    temperature: object = None
    top_p: object = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    schema: Json | None = None
    shows_thoughts: bool = True
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What an answer cost; `read` counts what came from the cache, too."""

    read: int = 0
    written: int = 0
    cached: int = 0
    thought: int = 0


class AnswerWriter(ABC):
    """Writes an answer in a client's language as it comes: one part after the other, each opened, grown and closed.

    `take` returns the events since it was last called, and `whole` the answer that is not streamed, once it is finished.
    """

    def __init__(self, answer: Answer, request: PlainRequest | None = None) -> None:
        self._answer = answer
        self._tools = request.tools if request is not None else {}
        self._shows_thoughts = request is None or request.shows_thoughts
        self._events: list[bytes] = []
        self._kind: PartKind = "text"
        self._is_shown = True
        self._call = ToolCall(id="", name="", arguments="")
        self._text: list[str] = []

    def write_text(self, text: str) -> Self:
        """Write an answer that says nothing but `text`, and cost nothing."""
        self.begin()
        self.open("text")
        self.grow(text)
        self.close()
        self.finish("stop", Usage())
        return self

    def take(self) -> bytes:
        taken = b"".join(self._events)
        self._events.clear()
        return taken

    def open(self, kind: PartKind, call: ToolCall | None = None) -> None:
        """Begin a part; a call comes without its arguments."""
        self._kind, self._text = kind, []
        self._call = call or self._call
        self._is_shown = kind != "thought" or self._shows_thoughts
        if self._is_shown:
            self._open()

    def grow(self, text: str) -> None:
        self._text.append(text)
        if self._is_shown:
            self._grow(text)

    def close(self, *, seal: str = "") -> None:
        """End the part; `seal` is how a thought is recognised when it comes back."""
        if self._is_shown:
            self._close("".join(self._text), seal=seal)

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def finish(self, reason: StopReason, usage: Usage) -> None: ...

    @abstractmethod
    def fail(self, code: str, message: str) -> None:
        """End the answer with an error."""

    @abstractmethod
    def whole(self) -> bytes: ...

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _grow(self, text: str) -> None: ...

    @abstractmethod
    def _close(self, text: str, *, seal: str) -> None: ...


class AnswerTranslator(Protocol):
    """Reads a provider's answer, in chunks cut anywhere, and gives it to a writer. Hostile input: it never raises."""

    def translate(self, chunk: bytes) -> bytes:
        """Take the next bytes of a stream, none at its end; return what the client gets of them."""
        ...

    def translate_whole(self, body: bytes, *, is_streamed: bool) -> bytes | None:
        """Return an answer that was not streamed as the client wants it; None where it is no answer."""
        ...


class ClientForm(Protocol):
    """How a client's language is left and come back to."""

    def read_request(self, request: Request) -> PlainRequest: ...

    def make_writer(self, answer: Answer, request: PlainRequest) -> AnswerWriter: ...


class UpstreamForm(Protocol):
    """How a provider's language is written and read for clients that speak another."""

    def write_request(self, request: PlainRequest) -> bytes: ...

    def make_translator(self, writer: AnswerWriter) -> AnswerTranslator: ...


def make_wire_name(name: str, *, namespace: str = "") -> str:
    """Return the name of a tool as every provider takes it: at most 64 letters, digits, `_` and `-`."""
    # What all tools of a client stand in says nothing.
    whole = name if namespace in ("", "functions") else f"{namespace.rstrip('_')}__{name}"
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", whole)
    if plain == whole and len(plain) <= NAME_CHARS:
        return plain or "unnamed"
    return f"{plain[: NAME_CHARS - 9]}_{blake2b(whole.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"


NAME_CHARS: Final = 64


def name_tools(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return tools by their wire names; of two with one name the first counts, as it is the one that keeps its place."""
    named: dict[str, Tool] = {}
    for tool in tools:
        named.setdefault(tool.wire_name, tool)
    return named


# What a server that knows fewer efforts is asked for.
_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def find_effort(value: object) -> str | None:
    return _EFFORTS.get(value) if isinstance(value, str) else None


def list_dropped(fields: Mapping[str, object], *, known: frozenset[str]) -> tuple[str, ...]:
    """Return the names of fields that say something and are not `known`."""
    return tuple(name for name, value in fields.items() if name not in known and value not in (None, [], {}, ""))
