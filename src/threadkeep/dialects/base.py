"""What threadkeep asks of a wire language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from threadkeep.dialects.raw_json import Fields
from threadkeep.items import Item, View

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


class ReplyReader(Protocol):
    """Reads a streamed answer while it passes by. Hostile input: it never raises and never keeps what it does not need."""

    @property
    def reply(self) -> Reply:
        """What was answered so far; its outcome stays `cut` until the terminal event is complete."""
        ...

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; true once the terminal event, its closing blank line included, is among all that was fed."""
        ...


class Wire(Protocol):
    """How a dialect's answers look on the wire."""

    def make_reader(self) -> ReplyReader:
        """Return a reader for one streamed answer."""
        ...

    def read_reply(self, body: bytes) -> Reply:
        """Return the reply that an answer which was not streamed carries; `cut` if it cannot be read."""
        ...

    def render_answer_stream(self, answer: Answer) -> bytes:
        """Return the whole event stream of an answer the gateway gives by itself."""
        ...

    def render_answer(self, answer: Answer) -> bytes:
        """Return the same answer as one JSON object."""
        ...

    def render_error(self, status: int, code: str, message: str) -> bytes:
        """Return the body of an error with HTTP status `status`; clients show `message` and branch on `code`."""
        ...


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


AnswerForm = Literal["whole", "events", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which model a request asks, and how the answer comes: as one object, as events, or as a list of their data."""

    model: str = ""
    form: AnswerForm = "whole"


class BoundThinking(Protocol):
    """Thinking that a provider signs and binds to everything before it: in another window it is refused."""

    def is_bound(self, model: str) -> bool:
        """Whether a model's thinking is bound; unknown models are taken to bind theirs."""
        ...

    def is_requested(self, request: Request) -> bool:
        """Whether a request asks for thinking."""
        ...

    def remove_thinking(self, item: Item) -> Item:
        """Return an item without its thinking, every other block with its exact bytes."""
        ...

    def drop_mismatched(self, request: Request) -> tuple[Request, Mapping[str, str]]:
        """Return a request that asks the provider to drop thinking that no longer fits, and the headers that needs.

        The same request and no header where it does not ask for thinking.
        """
        ...


class CacheMarkers(Protocol):
    """Marks that a client or the gateway sets in a request to say where a cached prefix ends. A request may hold a few."""

    def mark_item(self, items: Sequence[Item], request: Request, *, at: int) -> Item:
        """Return item `at` of a window with a marker at its end; as it is where no marker is free for it."""
        ...

    def limit_markers(self, items: Sequence[Item], request: Request) -> list[Item]:
        """Return items with their newest markers alone, as many as the request has room for."""
        ...


class PromptCache(Protocol):
    """A prompt cache that is addressed by a key, and by breakpoints in the models that know them."""

    def set_key(self, request: Request, key: str) -> Request:
        """Return a request with a cache key; the same request where the client has set one."""
        ...

    def takes_breakpoints(self, model: str, headers: Mapping[str, str]) -> bool:
        """Whether the provider of this model takes breakpoints, as far as a request tells."""
        ...

    def has_breakpoint(self, raw: bytes) -> bool: ...

    def set_breakpoint(self, item: Item) -> Item | None:
        """Return a message whose last part ends a cached prefix; None where it has no part that could."""
        ...


class MessageMerger(Protocol):
    """Merges user messages that a checkpoint made neighbours, for servers that refuse two in a row."""

    def takes_neighbours(self, model: str) -> bool:
        """Whether the provider of this model is known to accept two user messages in a row."""
        ...

    def is_user_message(self, item: Item) -> bool: ...

    def merge_messages(self, items: Sequence[Item]) -> Item:
        """Return several user messages as one: all their parts in order, with their exact bytes."""
        ...


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


class AnswerFilter(Protocol):
    """Makes one streamed answer for the client out of one or several of the provider's. Hostile input: it never raises."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the provider's answer, none at its end; return what the client gets of them.

        The events that end an answer are held back.
        """
        ...

    def start_next(self) -> None:
        """Drop the events held back: the provider answers once more."""
        ...

    def end(self) -> bytes:
        """Return the end of the answer, as the client is to see it."""
        ...


class HiddenTool(Protocol):
    """A tool that the gateway adds to a client's own, runs itself and hides from the client, in one dialect."""

    def can_join(self, request: Request) -> bool:
        """Whether answers to a request can be blended, and no tool of the client's has the name."""
        ...

    def add_to(self, request: Request) -> Request:
        """Return a request with the tool behind the client's own: the cached prefix of those stays."""
        ...

    def find_calls(self, items: Sequence[Item]) -> HiddenCalls:
        """Return what the items of a reply call."""
        ...

    def make_outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        """Return what the tool returned, by call id, as items that follow the reply."""
        ...

    def join_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        """Return the client's item behind a mixed reply with our outputs in it; None where they stand as items before it."""
        ...

    def spoken_text(self, items: Sequence[Item]) -> str:
        """Return what a client's echo of a reply must say to be one: its words, without space, and the calls it makes."""
        ...

    def sealed_reasoning(self, item: Item) -> bytes | None:
        """Return what identifies reasoning that a provider refuses without the call behind it; None for any other item."""
        ...

    def make_filter(self) -> AnswerFilter:
        """Return a filter for one streamed answer."""
        ...

    def merge_answers(self, answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return one answer that was not streamed, made of several."""
        ...


class Api(Protocol):
    """The API that speaks a dialect: where it is, and what it expects beside the items of a history.

    An ability that the API lacks is None.
    """

    @property
    def endpoints(self) -> Endpoints: ...

    def read_target(self, fields: Mapping[str, bytes], *, path: str, query: str) -> Target:
        """Return which model a request asks, and for which form of answer; read leniently."""
        ...

    @property
    def head_fields(self) -> Sequence[str]:
        """The fields that say which model is asked and what it is told outside the history."""
        ...

    @property
    def thinking(self) -> BoundThinking | None: ...

    @property
    def cache_markers(self) -> CacheMarkers | None: ...

    @property
    def prompt_cache(self) -> PromptCache | None: ...

    @property
    def merger(self) -> MessageMerger | None:
        """Merges neighbours one by one; None where `Dialect.arrange` arranges the window as a whole."""
        ...

    def add_instructions(self, request: Request, text: str) -> Request:
        """Return a request whose model is told `text` behind the client's instructions."""
        ...

    def find_instructions(self, request: Request) -> str:
        """Return the first instructions of a request; empty where it has none."""
        ...

    def is_side_request(self, request: Request, *, path: str) -> bool:
        """Whether a request asks for something else than the next step of its history: a token count, a compaction."""
        ...

    def copy_delivery(self, request: Request, client: Request) -> Request:
        """Return a request of our own that is answered the way the client's request is: same model, same streaming."""
        ...

    @property
    def compaction_headers(self) -> Mapping[str, str]:
        """The headers with which the provider compacts a history when it is asked to; empty where it needs none."""
        ...

    def headers_for(self, items: Sequence[Item]) -> Mapping[str, str]:
        """Return the headers without which the provider refuses one of these items."""
        ...

    def make_hidden_tool(self, tool: ToolDefinition) -> HiddenTool:
        """Return a tool as this dialect writes it."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool the model wants to be run; `arguments` are JSON as it wrote them, which may be none."""

    id: str
    name: str
    arguments: str


class ModelCalls(Protocol):
    """Requests to a model, and what its answers say while they stream."""

    @property
    def streams_items(self) -> bool:
        """Whether an answer is several items, each complete before the next; otherwise it is one message."""
        ...

    def address_request(self, request: Request, *, model: str) -> Request:
        """Return the request as it goes out: for this model, streamed, with the fields every request needs."""
        ...

    def limit_answer(self, request: Request, *, tokens: int) -> Request:
        """Return the request with a bound on the answer; the same request where it has one already."""
        ...

    def forbid_tools(self, request: Request) -> Request:
        """Return the request with its tools switched off; the same request where that would cost the prompt cache."""
        ...

    def mark_cache_end(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return a history with a cache marker at its end, where the provider caches only what is marked."""
        ...

    def read_delta(self, event: Fields) -> Delta | None:
        """Return what an event of a streamed answer says."""
        ...

    def read_finished_item(self, event: Fields) -> Item | None:
        """Return the item an event completes, where the dialect streams items."""
        ...

    def read_stop_reason(self, event: Fields) -> str | None:
        """Return why an answer ended, where the event, or the whole answer, says so."""
        ...

    def read_speech(self, item: Item) -> Speech:
        """Return what an item of an answer says, its reasoning and its calls left out."""
        ...


class Tools(Protocol):
    """Tools offered to a model, their calls and their outputs."""

    def define_tool(self, *, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool as a request offers it; `parameters` is a JSON schema."""
        ...

    def find_calls(self, item: Item) -> list[ToolCall]:
        """Return the calls an item makes, in order, without those of the provider's own tools."""
        ...

    def make_calls(self, calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
        """Return an answer that makes these calls, with `text` before them."""
        ...

    def make_output(self, call: ToolCall, text: str, *, is_error: bool = False) -> Item:
        """Return what a tool returned."""
        ...


class Dialect(Protocol):
    """One wire language. Pure: no method does I/O, none changes its arguments."""

    @property
    def name(self) -> str: ...

    @property
    def history_field(self) -> str:
        """The field of a request that holds its history."""
        ...

    @property
    def wire(self) -> Wire: ...

    @property
    def api(self) -> Api: ...

    @property
    def calls(self) -> ModelCalls: ...

    @property
    def tools(self) -> Tools: ...

    @property
    def opens_with_user(self) -> bool:
        """Whether the provider refuses a history whose first message is not in the user's role."""
        ...

    @property
    def takes_instructions_anywhere(self) -> bool:
        """Whether instructions within a history may stand before a message in the user's role."""
        ...

    @property
    def sealed_marks(self) -> Collection[bytes]:
        """Every item with sealed content holds one of these byte strings; an item without them need not be read for it."""
        ...

    def parse(self, value: object) -> Item:
        """Return the item for a decoded JSON value, in threadkeep's one fixed serialisation.

        Raises:
            InvalidItem: It is not a JSON object, or holds what JSON cannot say.
        """
        ...

    def view(self, item: Item) -> View:
        """Return what is known about an item. An unknown form is `OPAQUE`, never an error."""
        ...

    def canonical(self, item: Item) -> bytes:
        """Return the form that two spellings of the same item share; for hashing only."""
        ...

    def split(self, body: bytes) -> Request | None:
        """Take a request apart, or return None where its history is not in it or cannot be read."""
        ...

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        """Return `request` as a body whose history is its head followed by `items`."""
        ...

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        """Return a request without a history: what stands beside it, in the fields this language has for it."""
        ...

    def recognises(self, item: Item) -> bool:
        """Whether an item of unknown origin can only be of this dialect."""
        ...

    def make_user_message(self, text: str) -> Item:
        """Return a message in the user's role; the session state is one too."""
        ...

    def replace_output(self, item: Item, text: str) -> Item | None:
        """Return an output item with its payload replaced by `text`, all else untouched but a client's cache markers, which go.

        None where the item is not an output, or of a form whose payload the provider insists on.
        """
        ...

    def abort_calls(self, item: Item, calls: Collection[str]) -> list[Item]:
        """Return what closes those of the item's calls whose ids are in `calls`: outputs that say the call was aborted.

        Calls of the provider's own tools are not the client's to close; they, and ids the item does not open, yield nothing.
        """
        ...

    def make_erased_call(self, outputs: Sequence[tuple[str, Item]]) -> Item | None:
        """Return an item that calls for these outputs, by call id, and says nothing else; None where their form allows none."""
        ...

    def remove_sealed(self, item: Item) -> Item | None:
        """Return an item without what only the account it was issued to may hand back: encrypted reasoning, signed thinking.

        The very same item where it holds nothing of the kind; None where nothing would be left of it.
        """
        ...

    def blanked(self, item: Item, text: str) -> Item | None:
        """Return what goes out in place of an item whose words must not: of the same role, with the same calls and answers to
        them, saying nothing but `text`. Deterministic; None where nothing of that form can be without its words.
        """
        ...

    def host_parts(self, item: Item) -> Item | None:
        """Return a user message without the parts that hold a person's words; None where nothing is left."""
        ...

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        """Return `items` in a form the provider accepts where its roles must alternate; untouched where they need not.

        Deterministic, and stable under appending: the arrangement of a prefix is a prefix, but for its last item.
        """
        ...


def has_sealed(item: Item, dialect: Dialect) -> bool:
    """Whether an item holds what only the account it was issued to may send back."""
    return any(mark in item.raw for mark in dialect.sealed_marks) and dialect.remove_sealed(item) is not item
