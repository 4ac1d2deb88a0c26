"""A request the provider finds too large is made smaller and sent once more, before the client hears of it."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.client import Config, Threadkeep
from threadkeep.dialects import Reply
from threadkeep.errors import NothingToCompact
from threadkeep.gateway.conversation.proxy_interface import Forward, Incoming, Smaller
from threadkeep.gateway.http.proxy import Opening, classify_opening, is_size_refusal
from threadkeep.gateway.serve import running_gateway

if TYPE_CHECKING:
    from tests.gateway.conftest import Provider, Proxy

BODY = b'{"model": "m", "stream": true, "input": [{"role":"user","content":"hi"}]}'
SMALLER = b'{"model": "m", "input": "less"}'
TOO_LONG = {"error": {"message": "Your input exceeds the context window", "code": "context_length_exceeded"}}
CREATED = b'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n'
FAILED = (
    b'event: response.failed\ndata: {"type":"response.failed","response":{"id":"r","status":"failed",'
    b'"error":{"code":"context_length_exceeded","message":"too much"}}}\n\n'
)


def error(message: str, **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error("x", code="context_length_exceeded")),
        (400, error("This model's maximum context length is 8192 tokens.", type="invalid_request_error")),
        (400, json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}})),
        (400, error("input length and `max_tokens` exceed context limit: 1 + 2 > 3")),
        (400, error("the request exceeds the available context size", type="exceed_context_size_error", code=400)),
        (400, error("The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).", code=400)),
        (400, error("Input is too long for requested model.")),
        (413, error("Request exceeds the maximum size", type="request_too_large")),
        (413, b"<html>413</html>"),
        (400, b'{"error": "prompt is too long"}'),
        (400, b'{"message": "This endpoint\'s maximum context length is 128000 tokens", "code": 400}'),
    ],
)
def test_each_way_to_say_too_long_is_understood(status: int, body: bytes | str) -> None:
    """Codes and words of the providers there are."""
    assert is_size_refusal(status, body.encode() if isinstance(body, str) else body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error("messages: roles must alternate")),
        (429, error("Request too large for gpt on tokens per min", code="rate_limit_exceeded")),
        (413, error("Request too large on tokens per minute", code="rate_limit_exceeded")),
        (500, error("x", code="context_length_exceeded")),
        (401, error("context length")),
        (400, b"maximum context length"),
        (200, error("x", code="context_length_exceeded")),
    ],
)
def test_another_refusal_is_not_taken_for_it(status: int, body: bytes) -> None:
    """Rate limits and faults are none of it: sending less does not help."""
    assert not is_size_refusal(status, body)


@given(status=st.integers(100, 599), body=st.binary(max_size=300))
def test_any_bytes_are_judged_without_an_error(status: int, body: bytes) -> None:
    """Whatever a provider answers, it is judged, and never raises."""
    assert isinstance(is_size_refusal(status, body), bool)
    assert isinstance(classify_opening(body), Opening)


@pytest.mark.parametrize(
    ("stream", "opening"),
    [
        (b"", Opening.UNDECIDED),
        (CREATED, Opening.UNDECIDED),
        (CREATED + FAILED[:-1], Opening.UNDECIDED),
        (CREATED + FAILED, Opening.OVERFLOW),
        ((CREATED + FAILED).replace(b"\n", b"\r\n"), Opening.OVERFLOW),
        (CREATED + b'data: {"type":"response.output_item.added"}\n\n', Opening.UNDER_WAY),
        (b'event: error\ndata: {"type":"error","error":{"message":"prompt is too long"}}\n\n', Opening.OVERFLOW),
        (b'data: {"error":{"message":"x","code":"context_length_exceeded"}}\n\n', Opening.OVERFLOW),
        (b'data: {"error":{"message":"overloaded"}}\n\n', Opening.UNDER_WAY),
        (b'data: {"id":"c","choices":[{"delta":{"content":"context window"}}]}\n\n', Opening.UNDER_WAY),
        (b'event: message_start\ndata: {"type":"message_start"}\n\n' + FAILED, Opening.UNDER_WAY),
        (b": ping\n\n", Opening.UNDECIDED),
        (b"data: [DONE]\n\n", Opening.UNDER_WAY),
        (b"data: {\n\n", Opening.UNDER_WAY),
    ],
)
def test_a_stream_is_judged_by_its_first_event_that_says_anything(stream: bytes, opening: Opening) -> None:
    """Only a failure before anything was said counts."""
    assert classify_opening(stream) is opening


class Shrinking:
    """A conversation that can make its request smaller, once."""

    def __init__(self, proxy: Proxy, *, to: bytes | None = SMALLER) -> None:
        self._script = proxy.script
        self._to = to
        self.asked = 0
        proxy.script.decide = self.decide

    def decide(self, incoming: Incoming) -> Forward:
        return Forward(body=incoming.body, finished=self._script.finished, overflowed=self.overflowed)

    async def overflowed(self) -> Smaller | None:
        self.asked += 1
        return None if self._to is None else Smaller(body=self._to, headers={"anthropic-beta": "drops-blocks"})


def refusing(proxy: Proxy, *, first: bytes | None = None, always: bool = False) -> None:
    """Make the provider refuse its first request, or all: with an error, or with a stream that begins with `first`."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if len(proxy.provider.seen) > 1 and not always:
            return web.json_response({"id": "resp_1", "status": "completed", "output": []})
        if first is None:
            return web.json_response(TOO_LONG, status=400)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for start in range(0, len(first), 40):
            await answer.write(first[start : start + 40])
        return answer

    proxy.provider.handler = handler


@pytest.mark.anyio
@pytest.mark.parametrize("first", [None, CREATED + FAILED])
async def test_an_overflow_is_answered_with_a_smaller_request(proxy: Proxy, first: bytes | None) -> None:
    """The client gets the second answer and nothing of the first; the conversation hears of one reply."""
    refusing(proxy, first=first)
    shrinking = Shrinking(proxy)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY, headers={"Authorization": "Bearer k"}) as answer:
        assert (answer.status, await answer.json()) == (200, {"id": "resp_1", "status": "completed", "output": []})
    assert [seen.body for seen in proxy.provider.seen] == [BODY, SMALLER]
    assert [seen.named(b"authorization") for seen in proxy.provider.seen] == [[(b"authorization", b"Bearer k")]] * 2
    assert [seen.named(b"anthropic-beta") for seen in proxy.provider.seen] == [[], [(b"anthropic-beta", b"drops-blocks")]]
    assert (shrinking.asked, proxy.script.replies) == (1, [Reply(response_id="resp_1", outcome="completed")])


@pytest.mark.anyio
async def test_a_refusal_that_is_compressed_all_the_same_is_understood(proxy: Proxy) -> None:
    """A provider may compress although it was asked not to; what is relayed then stays compressed."""
    packed = gzip.compress(json.dumps(TOO_LONG).encode())

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=400, body=packed, headers={"Content-Encoding": "gzip"})

    proxy.provider.handler = handler
    shrinking = Shrinking(proxy)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert (answer.status, answer.headers["Content-Encoding"], await answer.read()) == (400, "gzip", packed)
    assert (shrinking.asked, len(proxy.provider.seen)) == (1, 2)


@pytest.mark.anyio
async def test_a_second_refusal_is_relayed(proxy: Proxy) -> None:
    """It is tried once; the provider's own words then reach the client."""
    refusing(proxy, always=True)
    shrinking = Shrinking(proxy)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert (answer.status, await answer.json()) == (400, TOO_LONG)
    assert (shrinking.asked, len(proxy.provider.seen), proxy.script.replies) == (1, 2, [Reply(outcome="failed")])


@pytest.mark.anyio
@pytest.mark.parametrize("first", [None, CREATED + FAILED])
async def test_what_cannot_be_made_smaller_is_refused_as_the_provider_did(proxy: Proxy, first: bytes | None) -> None:
    """The refusal that was looked at is relayed byte for byte."""
    refusing(proxy, first=first)
    Shrinking(proxy, to=None)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        read = await answer.read()
    assert (answer.status, read) == ((400, json.dumps(TOO_LONG).encode()) if first is None else (200, first))
    assert len(proxy.provider.seen) == 1


@pytest.mark.anyio
async def test_a_failure_to_shrink_is_counted_and_the_refusal_relayed(proxy: Proxy) -> None:
    """A named error on the way costs nothing but the second try."""
    refusing(proxy)

    async def overflowed() -> Smaller | None:
        raise NothingToCompact("t", reason="it is short")

    proxy.script.decide = lambda incoming: Forward(body=incoming.body, finished=proxy.script.finished, overflowed=overflowed)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert answer.status == 400
    assert proxy.app.failures == {"overflowed.nothing_to_compact": 1}


@pytest.mark.anyio
async def test_a_stream_under_way_is_relayed_whole(proxy: Proxy) -> None:
    """Looking at the first events loses no byte of them."""
    stream = CREATED + b'data: {"type":"response.output_item.added"}\n\n' + FAILED
    refusing(proxy, first=stream, always=True)
    shrinking = Shrinking(proxy)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert (answer.status, await answer.read()) == (200, stream)
    assert shrinking.asked == 0


@pytest.mark.anyio
async def test_headers_of_the_decision_replace_and_join_the_clients_own(proxy: Proxy) -> None:
    """What the conversation adds reaches the provider; the client's own of the same name does not."""
    proxy.script.decide = lambda incoming: Forward(
        body=incoming.body, finished=proxy.script.finished, headers={"anthropic-beta": "a,b", "x-more": "1"}
    )
    async with proxy.client.post(f"{proxy.url}/v1/messages", data=BODY, headers={"Anthropic-Beta": "a"}) as answer:
        assert answer.status == 200
    assert proxy.provider.seen[0].named(b"anthropic-beta", b"x-more") == [(b"anthropic-beta", b"a,b"), (b"x-more", b"1")]


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
async def test_a_history_that_outgrew_its_model_is_compacted_and_answered(provider: Provider, path: str) -> None:
    """With compaction on, the client that sent too much gets its answer, and so do the next turns, at one refusal in all."""
    limit = 60_000

    async def handler(request: web.Request) -> web.StreamResponse:
        if len(provider.seen[-1].body) > limit:
            return web.json_response(TOO_LONG, status=400)
        return web.json_response({"id": "r"})

    provider.handler = handler
    name = "input" if path.endswith("responses") else "messages"
    turns = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": f"Step {number}. " + "word " * 500}
        for number in range(41)
    ]
    async with Threadkeep(Config(store="memory:")) as tk, running_gateway(tk, upstream=provider.url, auto_compact=True) as url:
        for more in range(3):
            body = json.dumps({"model": "m", name: turns[: 37 + 2 * more]})
            async with ClientSession() as client, client.post(url + path, data=body) as answer:
                assert (answer.status, await answer.json()) == (200, {"id": "r"})
        [thread] = await tk.threads()
    asked = [seen for seen in provider.seen if seen.method == "POST"]
    assert [len(seen.body) > limit for seen in asked] == [True, False, False, False]
    assert thread.checkpoints == 1
