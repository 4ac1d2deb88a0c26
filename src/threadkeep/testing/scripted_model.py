"""A model that answers from a script, without a network.

It is strict: a request without a step, or a step without a request, fails the test. Every request is kept as it came.
`ScriptedRemoteModel` is the same for a provider that compacts by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeAlias

from threadkeep.dialects import DEFAULT, Answer, Dialect, Request, ToolCall, find_dialect
from threadkeep.errors import ModelOverflow, ModelRejected, ModelUnavailable
from threadkeep.items import Item
from threadkeep.llm import ModelReply, RemoteCompaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Says:
    """Answer with `text`; every other field is that of the reply."""

    text: str
    reply: ModelReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Call a tool, after saying `text` if there is any."""

    tool: str
    arguments: Mapping[str, object]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflows:
    limit_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    reason: str = "overloaded"
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    status: int = 400
    reason: str = "invalid request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """Answer with `then` once `until` is set."""

    until: asyncio.Event
    then: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacts:
    """Compact: return `items`, in the provider's JSON, instead of the history."""

    items: tuple[Mapping[str, object], ...]
    input_tokens: int | None = None
    output_tokens: int | None = None


Plain: TypeAlias = str | Says | Calls | Overflows | Unavailable | Rejected | Compacts
# A callable gets the request and returns the step; it may be asynchronous.
Looks: TypeAlias = Callable[[Request], "Step | Awaitable[Step]"]
Step: TypeAlias = Plain | Holds | Looks


def says(text: str, **figures: Any) -> Says:
    """Answer with `text`; `figures` are fields of `ModelReply`, such as `input_tokens` or `cost_usd`."""
    return Says(text=text, reply=ModelReply(text=text, **figures))


def refuses(text: str = "I will not summarise this.") -> Says:
    """Decline to answer."""
    return says(text, ending="refused")


def runs_out(text: str) -> Says:
    """Answer until the output limit cuts it off."""
    return says(text, ending="length")


class ScriptedModel:
    """A model that answers its n-th request with the n-th step; see `threadkeep.llm.Model` for the contract.

    `close`, or leaving it as a context manager, raises AssertionError when steps are unused or were missing, unless another
    error is already on its way out.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        name: str = "scripted:model",
        dialect: str = DEFAULT.name,
        window_tokens: int | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._steps = tuple(steps)
        self._name = name
        self._language = find_dialect(dialect)
        self._window_tokens = window_tokens

    @property
    def name(self) -> str:
        return self._name

    @property
    def dialect(self) -> str:
        return self._language.name

    @property
    def window_tokens(self) -> int | None:
        return self._window_tokens

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Every request as the JSON a provider would have received."""
        return [json.loads(self._language.join(request, request.items)) for request in self.requests]

    async def ask(self, request: Request) -> ModelReply:
        done = await self._next(request)
        if not isinstance(done, ModelReply):
            raise AssertionError(f"step {len(self.requests)} is a compaction, and a question was asked")
        return done

    def close(self) -> None:
        """Check that every step was asked for and none was missing."""
        if len(self.requests) != len(self._steps):
            raise AssertionError(f"the script has {len(self._steps)} steps, {len(self.requests)} requests came")

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()

    async def _next(self, request: Request) -> ModelReply | RemoteCompaction:
        self.requests.append(request)
        number = len(self.requests)
        if number > len(self._steps):
            raise AssertionError(f"request {number} came, the script has {len(self._steps)} steps")
        step = self._steps[number - 1]
        while not isinstance(step, Plain):
            step = await _resolve_step(step, request)
        return self._perform(step)

    def _perform(self, step: Plain) -> ModelReply | RemoteCompaction:
        match step:
            case str():
                return self._perform(says(step))
            case Says():
                items = step.reply.items or _build_answer_items(step.text, dialect=self._language)
                return replace(step.reply, items=items)
            case Calls():
                return ModelReply(text=step.text, items=_build_call_items(step, dialect=self._language), called_tools=True)
            case Overflows():
                raise ModelOverflow(self._name, limit_tokens=step.limit_tokens)
            case Unavailable():
                raise ModelUnavailable(self._name, reason=step.reason, retry_after_s=step.retry_after_s)
            case Rejected():
                raise ModelRejected(self._name, status=step.status, reason=step.reason)
            case Compacts():
                items = tuple(self._language.parse(dict(item)) for item in step.items)
                return RemoteCompaction(items=items, issuer="", input_tokens=step.input_tokens, output_tokens=step.output_tokens)


class ScriptedRemoteModel(ScriptedModel):
    """A scripted model whose provider compacts by itself; see `threadkeep.llm.RemoteCompactor` for the contract."""

    def __init__(
        self, steps: Sequence[Step], *, issuer: str = "scripted#account", name: str = "scripted:remote", **options: Any
    ) -> None:
        super().__init__(steps, name=name, **options)
        self.issuer = issuer

    async def compact(self, request: Request) -> RemoteCompaction:
        done = await self._next(request)
        if not isinstance(done, RemoteCompaction):
            raise AssertionError(f"step {len(self.requests)} is an answer, and a compaction was asked for")
        return replace(done, issuer=self.issuer)


async def _resolve_step(step: Holds | Looks, request: Request) -> Step:
    if isinstance(step, Holds):
        await step.until.wait()
        return step.then
    found = step(request)
    return await found if isawaitable(found) else found


def _build_answer_items(text: str, *, dialect: Dialect) -> tuple[Item, ...]:
    """Return the items of a provider's answer with this text."""
    answer = Answer(text=text, response_id="resp_1", message_id="msg_1", model="scripted", created_at=1_700_000_000)
    return dialect.wire.read_reply(dialect.wire.render_answer(answer)).items if text else ()


def _build_call_items(step: Calls, *, dialect: Dialect) -> tuple[Item, ...]:
    """Return the items of an answer that calls a tool, with text before the call."""
    call = ToolCall(id="call_1", name=step.tool, arguments=json.dumps(step.arguments))
    return tuple(dialect.api.make_calls([call], text=step.text))
