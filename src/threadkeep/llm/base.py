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
        """Whether one provider serves both; where a name does not say who does, only a model of the same name is known to be."""
        if self.provider and other.provider:
            return self.provider == other.provider
        return self.model == other.model


class Model(Protocol):
    """Something that answers. One call is one attempt: whoever asks decides whether to ask again (`threadkeep.llm.retry`)."""

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
        """How much a request may hold, where the model can tell; what is configured for its name counts where it cannot."""
        ...

    async def ask(self, request: Request) -> ModelReply:
        """Send `request` and return the whole answer.

        Which model is asked, and whether the answer is streamed, is the model's to set; every other field goes out as it is.
        Cancelling the call closes the connection. A stream that breaks off is no answer.

        Raises:
            ModelOverflow: The request does not fit the model's window.
            ModelUnavailable: It could not be reached, is overloaded, or broke off; asking again may help.
            ModelRejected: It refused this request, and a retry will not help.
        """
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """A model that can be listened to while it answers."""

    async def stream(self, request: Request, *, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Send `request`, call `on_delta` with each piece as it comes, and return the whole answer; else as `Model.ask`.

        Pieces of an answer that breaks off are no answer; a retry sends all of them again.
        """
        ...


@runtime_checkable
class BoundableModel(Protocol):
    """A model that can be told how much it may answer."""

    def bound(self, request: Request, *, answer_tokens: int) -> Request:
        """Return the request with that bound, in the provider's own words; one that says so itself stays as it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCompaction:
    """What a provider made of a history: items that stand in its place, of which some only the provider can read.

    Attributes:
        items: In order; opaque ones among them are bound to `issuer`.
        issuer: Who can read them: a provider's address and a digest of the account, never a credential.
    """

    items: tuple[Item, ...]
    issuer: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


@runtime_checkable
class SealingModel(Protocol):
    """A model whose provider seals parts of its answers, and that can tell for whom."""

    @property
    def issuer(self) -> str:
        """Who can read what it seals: a provider's address and a digest of the account, never a credential."""
        ...


@runtime_checkable
class RemoteCompactor(SealingModel, Protocol):
    """A model whose provider compacts histories by itself."""

    async def compact(self, request: Request) -> RemoteCompaction:
        """Send a history and return what the provider puts in its place.

        Raises:
            ModelOverflow, ModelUnavailable, ModelRejected: As `Model.ask`.
        """
        ...
