"""The values that every wire language shares: requests, replies, calls, and the words that are ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from threadkeep.items import Item

# How threadkeep's own session state begins, in every dialect: it speaks in the user's role and is no person's message.
STATE_OPENING = "The earlier part of this session was compacted."

# Stands between messages that a dialect sends as one, so that each keeps its boundaries. It is nobody's words.
SEPARATOR = "\n\n---\n\n"

# What the output of a call that was broken off says.
ABORTED = "aborted"

# The name of the tool in a call that stands in for an erased one.
ERASED_NAME = "erased"

# Replaces a provider's own compaction that another account cannot read: the reader must know that there was a history.
UNREADABLE = "(An earlier part of this conversation was compacted by another provider, and cannot be read here.)"

# How the names of checkpoints begin that stand in for a client's history; see `CompactionService`.
CHECKPOINT_PREFIX = "threadkeep:"

Outcome = Literal["completed", "incomplete", "failed", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A provider request taken apart so that its history can be replaced and nothing else changes.

    Attributes:
        fields: Every top-level field and its exact JSON, in the order it was sent.
        head: Leading items the client writes anew for every request (system, developer); never part of the history.
        items: The history.
    """

    fields: Mapping[str, bytes]
    head: tuple[Item, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a provider.

    Attributes:
        items: Every completed output item, in output order; where the dialect streams whole items, their exact bytes.
        outcome: How the answer ended; `cut` if its end never came or could not be read.
    """

    items: tuple[Item, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    response_id: str | None = None
    outcome: Outcome = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An assistant's message that the gateway writes by itself, with what a provider would put around it."""

    text: str
    response_id: str
    message_id: str
    model: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where an API that speaks a dialect is served. Paths are those below `mount`; `{model}` stands for a model's name.

    Attributes:
        provider: Whose API it is: `openai`, `anthropic`. Its upstream is the setting `PROVIDER_upstream`.
        turn: The path of a request that carries a history and goes on with it.
        others: Further paths of requests that carry a history.
        models: The path that tells a model's window.
        id_prefix: How the ids of its answers begin.
        mount: What its paths begin with.
        is_mount_added: Whether clients are given a base URL without the mount and add it themselves, whatever the path.
        key_header: The header in which an API key stands; empty where it is `Authorization` alone.
        key_query: The part of the query in which one may stand.
    """

    provider: str
    turn: str
    others: tuple[str, ...] = ()
    models: str = "/models"
    id_prefix: str = "resp_"
    mount: str = "/v1"
    is_mount_added: bool = False
    key_header: str = ""
    key_query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitItem:
    """The two parts of an item: the compaction that its provider wrote, and the rest."""

    written: Item | None
    rest: Item | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """A request that has a provider compact a history; `path` is below the provider's mount.

    A server that does not know such requests lacks the path, or names `names` in its refusal.
    """

    path: str
    request: Request
    headers: Mapping[str, str]
    names: str | None = None


AnswerForm = Literal["whole", "events", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which model a request asks, and how the answer comes: as one object, as events, or as a list of their data."""

    model: str = ""
    form: AnswerForm = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a client sends over a WebSocket.

    Attributes:
        kind: `create` asks for an answer, `steer` adds to one that is being given, `notice` needs no answer; empty if unknown.
        stream: The client's name for the lane in which it is answered.
        previous: The id of the answer that it goes on from, or steers.
        generates: Whether the model is to answer; otherwise the client only prepares its next request.
        fields: The fields of the request that it would be over HTTP.
        input: The new items; None if they cannot be read.
    """

    kind: str
    stream: str | None
    previous: str | None
    generates: bool
    fields: Mapping[str, bytes]
    input: tuple[Item, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool that is offered to a model; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenCalls:
    """The calls in one reply: those of a hidden tool as (call id, arguments), and whether it calls another tool too.

    Arguments that cannot be read are None.
    """

    calls: tuple[tuple[str, object], ...]
    has_others: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of an answer that is coming in: what the model says, or what it thinks on the way."""

    text: str
    is_thought: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The words of an item, and whether some of them are a refusal."""

    text: str
    is_refusal: bool = False
