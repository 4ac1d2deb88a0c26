"""What every model behind a provider must do, as checks that need no test framework.

A model proves itself in each dialect it speaks by running each of `CHECKS` on samples of its own, which answer its requests with
the bytes that a check wants a provider to send. A check raises `AssertionError` with the fact that does not hold.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

from threadkeep.dialects import Answer, Delta, Dialect, Request
from threadkeep.errors import ModelError, ModelOverflow, ModelRejected, ModelUnavailable
from threadkeep.llm import BoundableModel, Model, ModelReply, StreamingModel
from threadkeep.testing.expectations import expect, expect_error, expect_that

EVENTS: Final = {"content-type": "text/event-stream"}
JSON: Final = {"content-type": "application/json"}
REFUSALS: Final = (400, 401, 402, 403, 404, 405, 422, 501, 307)
BUSY: Final = (408, 409, 429, 500, 502, 503, 504, 529)
PATIENCE_SECONDS: Final = 60.0
SENTENCE: Final = "At the start: 端口 🪸."


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """One answer of a provider.

    Attributes:
        chunks: The body, in the pieces it is written in.
        hold: Awaited after the last chunk, before the answer ends.
        cut: Closes the connection instead of ending the answer.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: tuple[bytes, ...] = ()
    hold: asyncio.Event | None = None
    cut: bool = False


class Provider(Protocol):
    """A provider that plays replies, and the model behind it. `abandoned` is set once a model left before an answer's end."""

    @property
    def model(self) -> Model: ...

    @property
    def bodies(self) -> Sequence[bytes]:
        """The requests that came."""
        ...

    @property
    def abandoned(self) -> asyncio.Event: ...

    async def arrived(self, count: int) -> None:
        """Return once so many requests came."""
        ...


class ModelSamples(Protocol):
    """A model in one dialect."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def request(self) -> Request:
        """A question with fields and items of its own."""
        ...

    @property
    def credential(self) -> str:
        """The credential that the model sends; no error may hold it."""
        ...

    def play(self, *replies: HttpReply) -> AbstractAsyncContextManager[Provider]:
        """Open a model whose provider answers its n-th request with the n-th reply."""
        ...


def stream_reply(dialect: Dialect, text: str, *, chunk_bytes: int = 97) -> HttpReply:
    """Return an answer as a stream of events, in pieces that fall into the middle of events."""
    body = dialect.wire.render_answer_stream(_make_answer(text))
    return HttpReply(headers=EVENTS, chunks=tuple(body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)))


def break_off_reply(dialect: Dialect, text: str) -> HttpReply:
    """Return the beginning of an answer, after which the connection is closed."""
    body = dialect.wire.render_answer_stream(_make_answer(text))
    return HttpReply(headers=EVENTS, chunks=(body[: len(body) // 2],), cut=True)


def make_whole_reply(dialect: Dialect, text: str) -> HttpReply:
    """Return an answer as one JSON object, as servers send it that do not stream."""
    return HttpReply(headers=JSON, chunks=(dialect.wire.render_answer(_make_answer(text)),))


def make_json_reply(body: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpReply:
    """Return an answer of one JSON object."""
    return HttpReply(status=status, headers={**JSON, **(headers or {})}, chunks=(json.dumps(body).encode(),))


def _make_answer(text: str) -> Answer:
    return Answer(text=text, response_id="resp_1", message_id="msg_1", model="scripted", created_at=1_700_000_000)


async def ask(samples: ModelSamples, reply: HttpReply) -> ModelReply | ModelError:
    """Ask once and return what came of it."""
    async with samples.play(reply) as provider:
        try:
            return await provider.model.ask(samples.request)
        except ModelError as error:
            return error


async def expect_unavailable(samples: ModelSamples, reply: HttpReply, fact: str) -> ModelUnavailable:
    error = await ask(samples, reply)
    if not isinstance(error, ModelUnavailable):
        raise AssertionError(f"{fact}: wanted ModelUnavailable, found {error!r:.500}")
    return error


async def check_request_keeps_its_bytes(samples: ModelSamples) -> None:
    """Items go out byte for byte and in order, and every field of the request as it was."""
    async with samples.play(stream_reply(samples.dialect, SENTENCE)) as provider:
        expect(provider.model.dialect, samples.dialect.name, "a model says which dialect it speaks")
        await provider.model.ask(samples.request)
        [body] = provider.bodies
    sent = samples.dialect.split(body)
    if sent is None:
        raise AssertionError("what is sent is a request of the dialect")
    expect(sent.items, samples.request.items, "items are sent as they were written")
    kept = {name: sent.fields.get(name) for name in samples.request.fields}
    expect(kept, dict(samples.request.fields), "fields are sent as they were written")
    expect(sent.head, samples.request.head, "so are instructions and tools")


async def check_any_pieces_are_one_answer(samples: ModelSamples) -> None:
    """Whether it comes whole, or streamed in pieces of any size, the answer is the same."""
    dialect = samples.dialect
    replies = [
        make_whole_reply(dialect, SENTENCE),
        *(stream_reply(dialect, SENTENCE, chunk_bytes=size) for size in (1, 97, 10**6)),
    ]
    for number, reply in enumerate(replies):
        found = await ask(samples, reply)
        if isinstance(found, ModelError):
            raise AssertionError(f"way {number} is an answer") from found
        expect((found.text, found.ending, found.called_tools), (SENTENCE, "finished", False), f"way {number} says the same")
        expect(dialect.view(found.items[-1]).text, SENTENCE, f"way {number}: the items hold what was said")


async def check_deltas_are_the_answer(samples: ModelSamples) -> None:
    """A model that streams tells the words as they come: together they are the answer."""
    async with samples.play(stream_reply(samples.dialect, SENTENCE)) as provider:
        if not isinstance(provider.model, StreamingModel):
            await provider.model.ask(samples.request)
            return
        deltas: list[Delta] = []
        reply = await provider.model.stream(samples.request, on_delta=deltas.append)
        expect("".join(delta.text for delta in deltas), reply.text, "the pieces are the answer")


async def check_half_an_answer_is_none(samples: ModelSamples) -> None:
    """A stream that breaks off, or ends before its last event, may be asked for again; nothing of it is returned."""
    whole = stream_reply(samples.dialect, SENTENCE)
    half = HttpReply(headers=EVENTS, chunks=whole.chunks[: len(whole.chunks) // 2])
    await expect_unavailable(samples, break_off_reply(samples.dialect, SENTENCE), "a closed connection is no answer")
    await expect_unavailable(samples, half, "a stream without its end is no answer")


async def check_refusals_are_final(samples: ModelSamples) -> None:
    """A status that says no means no; the reason is passed on, and no redirect is followed."""
    body = {"error": {"message": "no such thing", "type": "invalid_request_error"}}
    for status in REFUSALS:
        error = await ask(samples, make_json_reply(body, status=status, headers={"location": "http://127.0.0.1:9/elsewhere"}))
        if not isinstance(error, ModelRejected):
            raise AssertionError(f"status {status} is a refusal, found {error!r:.500}")
        expect((error.status, error.reason), (status, "no such thing"), "a refusal says why")


async def check_busy_providers(samples: ModelSamples) -> None:
    """A status that says later means later, and how much later is passed on; the model does not ask again by itself."""
    body = {"error": {"message": "come back", "type": "overloaded_error"}}
    for status in BUSY:
        reply = make_json_reply(body, status=status, headers={"retry-after": "7"})
        error = await expect_unavailable(samples, reply, f"status {status} may pass")
        expect((error.reason, error.retry_after_s), (f"HTTP {status}, come back", 7.0), "it says why, and for how long")


async def check_overflow(samples: ModelSamples) -> None:
    """A request that does not fit is told apart, with the limit: less has to be sent."""
    body = {"error": {"message": "prompt is too long: 215345 tokens > 200000 maximum", "type": "invalid_request_error"}}
    error = await ask(samples, make_json_reply(body, status=400))
    if not isinstance(error, ModelOverflow):
        raise AssertionError(f"an overflow is told apart, found {error!r:.500}")
    expect(error.limit_tokens, 200_000, "the limit is passed on")


async def check_cancelling_hangs_up(samples: ModelSamples) -> None:
    """Cancelling closes the connection, so that the provider stops too."""
    begun = stream_reply(samples.dialect, SENTENCE).chunks[:2]
    async with samples.play(HttpReply(headers=EVENTS, chunks=begun, hold=asyncio.Event())) as provider:
        asking = asyncio.create_task(provider.model.ask(samples.request))
        await provider.arrived(1)
        asking.cancel()
        await asyncio.wait({asking})
        expect_that(asking.cancelled(), "a cancelled question ends so")
        await asyncio.wait_for(provider.abandoned.wait(), timeout=PATIENCE_SECONDS)


async def check_questions_do_not_wait(samples: ModelSamples) -> None:
    """A model answers many questions at once."""
    hold = asyncio.Event()
    slow = HttpReply(headers=EVENTS, hold=hold, cut=True)
    async with samples.play(slow, stream_reply(samples.dialect, "ok")) as provider:
        first = asyncio.create_task(provider.model.ask(samples.request))
        await provider.arrived(1)
        expect((await provider.model.ask(samples.request)).text, "ok", "the second question is answered before the first")
        hold.set()
        with expect_error(ModelUnavailable, "and the first is told its own end"):
            await first


async def check_credentials_stay_secret(samples: ModelSamples) -> None:
    """No error, name or representation holds the credential, not even when the provider repeats it."""
    echo = {"error": {"message": f"Incorrect API key provided: {samples.credential}.", "type": "authentication_error"}}
    replies = [make_json_reply(echo, status=status) for status in (401, 503)]
    told: list[str] = []
    async with samples.play(*replies, break_off_reply(samples.dialect, SENTENCE)) as provider:
        for _ in range(3):
            try:
                await provider.model.ask(samples.request)
            except ModelError as error:
                told += [str(error), repr(error), repr(error.__dict__), repr(error.__context__), repr(error.__cause__)]
        told += [repr(provider.model), provider.model.name]
    expect(len(told), 17, "each of these is an error")
    expect([each for each in told if samples.credential in each], [], "nothing holds the credential")


async def check_bound(samples: ModelSamples) -> None:
    """A model whose answers can be limited adds the limit, and leaves a request alone that has one."""
    async with samples.play() as provider:
        if not isinstance(provider.model, BoundableModel):
            return
        bare = Request(fields={}, head=samples.request.head, items=samples.request.items)
        bounded = provider.model.bound(bare, answer_tokens=321)
        added = [json.loads(raw) for raw in bounded.fields.values()]
        expect((added, bounded.items), ([321], bare.items), "one field is added, and nothing else changes")
        expect(provider.model.bound(bounded, answer_tokens=99).fields, bounded.fields, "a limit of its own stays")


Check = Callable[[ModelSamples], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    check_request_keeps_its_bytes,
    check_any_pieces_are_one_answer,
    check_deltas_are_the_answer,
    check_half_an_answer_is_none,
    check_refusals_are_final,
    check_busy_providers,
    check_overflow,
    check_cancelling_hangs_up,
    check_questions_do_not_wait,
    check_credentials_stay_secret,
    check_bound,
)
