"""The port to a model: one request in the model's own wire language, one whole answer.

A request is a `threadkeep.dialects.Request`, which a gateway also splits a client's body into: a thread's own request with an
instruction after its history is a cache hit, because everything before the instruction is byte for byte what a turn sends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from threadkeep.dialects import Delta, Request
from threadkeep.items import Item

Ending = Literal["finished", "length", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A whole answer.

    Attributes:
        text: What the model said, without its reasoning.
        items: Everything it produced, in order.
        ending: `length` if it ran out of room, `refused` if the model or the provider's filter refused to answer.
        called_tools: Whether it called a tool.
        cost_usd: Its cost, if the provider reports one.
    """

    text: str
    items: tuple[Item, ...] = ()
    ending: Ending = "finished"
    called_tools: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """A model's name, parsed.

    Attributes:
        provider: `openai`, `anthropic` or an address; empty if the name has none.
        model: Its name there.
    """

    provider: str
    model: str

    @classmethod
    def parse(cls, name: str) -> ModelName:
        """Parse the name that a person or a host gives a model."""
        model, at, url = name.rpartition("@")
        if at and url.lower().startswith(("http://", "https://")):
            return cls(provider=url, model=model)
        provider, _, model = name.partition(":")
        return cls(provider=provider, model=model) if model else cls(provider="", model=name)

    def is_served_with(self, other: ModelName) -> bool:
        """Whether one provider serves both. If a name has no provider, that is certain only for a model of the same name."""
        if self.provider and other.provider:
            return self.provider == other.provider
        return self.model == other.model


class Model(Protocol):
    """A language model. One call is one attempt; the caller decides whether to retry (`threadkeep.llm.retry`)."""

    @property
    def name(self) -> str:
        """The model as a person writes it: `openai:NAME`, `anthropic:NAME`, `NAME@URL`."""
        ...

    @property
    def dialect(self) -> str:
        """The wire language its requests are written in."""
        ...

    @property
    def window_tokens(self) -> int | None:
        """The window, if the model can tell; None means that the configured one counts."""
        ...

    async def ask(self, request: Request) -> ModelReply:
        """Send `request` and return the whole answer.

        The model's name, and whether to stream, are set here; every other field is sent as it is.
        Cancelling the call closes the connection. A stream that breaks off is no answer.

        Raises:
            ModelOverflow: The request does not fit the model's window.
            ModelUnavailable: It could not be reached, is overloaded, or broke off; a retry may help.
            ModelRejected: It refused this request, and a retry will not help.
        """
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """A model whose answers can be read while they come in."""

    async def stream(self, request: Request, *, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Send `request`, call `on_delta` with each piece as it comes, and return the whole answer; else as `Model.ask`.

        Pieces of an answer that breaks off are no answer; a retry sends all of them again.
        """
        ...


@runtime_checkable
class BoundableModel(Protocol):
    """A model whose answers can be limited."""

    def bound(self, request: Request, *, answer_tokens: int) -> Request:
        """Return the request with that limit, in the provider's field; a request with a limit of its own is returned as it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCompaction:
    """A provider's compaction: items that replace a history, some of which only the provider can read.

    Attributes:
        items: In order; opaque ones among them are bound to `issuer`.
        issuer: The account that can read them: a provider's address and a digest of the account, never a credential.
    """

    items: tuple[Item, ...]
    issuer: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


@runtime_checkable
class SealingModel(Protocol):
    """A model whose provider seals parts of its answers for one account."""

    @property
    def issuer(self) -> str:
        """The account that can read them: a provider's address and a digest of the account, never a credential."""
        ...


@runtime_checkable
class RemoteCompactor(SealingModel, Protocol):
    """A model whose provider compacts histories."""

    async def compact(self, request: Request) -> RemoteCompaction:
        """Send a history and return the provider's compaction of it.

        Raises:
            ModelOverflow, ModelUnavailable, ModelRejected: As `Model.ask`.
        """
        ...
