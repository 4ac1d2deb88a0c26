"""Conversation requests go through the conversation logic, and its verdict is carried out."""

from __future__ import annotations

import asyncio
import json
import logging
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientPayloadError, web
from anyio.lowlevel import checkpoint

from threadkeep.dialects import Answer, Reply
from threadkeep.dialects.responses.replies import ResponsesReplyReader, render_answer, render_answer_stream
from threadkeep.errors import StoreBusy, ThreadkeepError
from threadkeep.gateway.conversation.proxy_interface import Answered, Forward, Incoming, Refused
from threadkeep.items import Item

if TYPE_CHECKING:
    from tests.gateway.conftest import Handler, Proxy

pytestmark = pytest.mark.anyio

STREAM = render_answer_stream(Answer(text="hello", response_id="resp_1", message_id="msg_1", model="m", created_at=1))
BODY = b'{"model": "m", "stream": true, "input": [{"role":"user","content":"hi"}]}'
STREAMED = {"Content-Type": "text/event-stream"}


def reply_to(stream: bytes) -> Reply:
    assembler = ResponsesReplyReader()
    assembler.feed(stream)
    return assembler.reply


def streaming(*chunks: bytes) -> Handler:
    """Return a handler that answers with a stream of these chunks."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=STREAMED)
        await answer.prepare(request)
        for chunk in chunks:
            await answer.write(chunk)
        return answer

    return handler


async def test_a_forwarded_request_is_the_one_that_was_decided_on(proxy: Proxy) -> None:
    """The provider gets the decided body with the client's headers, and is asked not to compress its answer."""
    proxy.script.decide = lambda incoming: Forward(body=b'{"input": "other"}', finished=proxy.script.finished)
    headers = [("X-Codex-Turn", "a"), ("X-Codex-Turn", "b"), ("Accept-Encoding", "gzip"), ("Authorization", "Bearer k")]
    async with proxy.client.post(f"{proxy.url}/v1/responses?beta=1", data=BODY, headers=headers) as answer:
        await answer.read()
    [seen], [incoming] = proxy.provider.seen, proxy.script.opened
    assert (seen.method, seen.target, seen.body) == ("POST", "/v1/responses?beta=1", b'{"input": "other"}')
    assert seen.named(b"x-codex-turn", b"accept-encoding", b"authorization", b"content-length") == [
        (b"x-codex-turn", b"a"),
        (b"x-codex-turn", b"b"),
        (b"authorization", b"Bearer k"),
        (b"accept-encoding", b"identity"),
        (b"content-length", b"18"),
    ]
    assert (incoming.path, incoming.body, incoming.headers["x-codex-turn"]) == ("/responses", BODY, "a, b")


async def test_a_streamed_answer_is_relayed_and_reported(proxy: Proxy) -> None:
    """The client gets the stream byte for byte; the conversation gets what was in it, once."""
    proxy.provider.handler = streaming(STREAM[:100], STREAM[100:-1], STREAM[-1:], b"data: [DONE]\n\n")
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert await answer.read() == STREAM + b"data: [DONE]\n\n"
    assert proxy.script.replies == [reply_to(STREAM)]
    assert proxy.script.replies[0].outcome == "completed"


async def test_an_answer_in_one_piece_is_relayed_and_reported(proxy: Proxy) -> None:
    """A JSON answer is read too, and relayed with its exact bytes."""
    body = b'{"id":"resp_2", "status":"completed","output":[{"type":"message","id":"m" }]}\n'

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        await answer.write(body[:20])
        await answer.write(body[20:])
        return answer

    proxy.provider.handler = handler
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert await answer.read() == body
    item = Item(b'{"type":"message","id":"m" }')
    assert proxy.script.replies == [Reply(items=(item,), response_id="resp_2", outcome="completed")]


@pytest.mark.parametrize("as_stream", [True, False])
async def test_the_report_comes_before_the_last_bytes(proxy: Proxy, *, as_stream: bool) -> None:
    """When the conversation learns of the reply, the end of the answer has not been handed to the client."""
    whole = STREAM if as_stream else render_answer(Answer(text="x", response_id="r", message_id="m", model="m", created_at=1))
    sent: list[bytes] = []
    sent_at_report: list[bytes] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=STREAMED if as_stream else {"Content-Type": "application/json"})
        await answer.prepare(request)
        for chunk in (whole[:50], whole[50:-1], whole[-1:]):
            await answer.write(chunk)
        return answer

    async def finished(reply: Reply) -> None:
        sent_at_report.append(b"".join(sent))

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    proxy.provider.handler = handler
    proxy.script.decide = lambda incoming: Forward(body=incoming.body, finished=finished)
    await proxy.app(_scope(), _client(), send)
    assert b"".join(sent) == whole
    [before] = sent_at_report
    assert len(before) < len(whole)


def _scope() -> dict[str, Any]:
    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(len(BODY)).encode())]
    return {"type": "http", "method": "POST", "raw_path": b"/v1/responses", "query_string": b"", "headers": headers}


def _client() -> Any:
    """Return a client that sends its request and then stays for good."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": BODY, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    return receive


async def test_only_the_last_event_waits_for_the_report(proxy: Proxy) -> None:
    """An answer that comes at once is relayed up to its last event while the request is still being recorded."""
    recorded = asyncio.Event()

    async def finished(reply: Reply) -> None:
        await recorded.wait()

    before, ending = STREAM[: STREAM.index(b"event: response.completed")], STREAM[STREAM.index(b"event: response.completed") :]
    proxy.provider.handler = streaming(STREAM)
    proxy.script.decide = lambda incoming: Forward(body=incoming.body, finished=finished)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert await answer.content.readexactly(len(before)) == before
        recorded.set()
        assert await answer.read() == ending


async def test_a_client_that_waits_for_the_end_waits_for_the_report(proxy: Proxy) -> None:
    """While the report is under way the answer is open: its end comes after."""
    entered, release, order = asyncio.Event(), asyncio.Event(), list[str]()

    async def finished(reply: Reply) -> None:
        entered.set()
        await release.wait()
        order.append("reported")

    async def client() -> None:
        async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
            assert await answer.read() == STREAM
        order.append("answered")

    proxy.provider.handler = streaming(STREAM)
    proxy.script.decide = lambda incoming: Forward(body=incoming.body, finished=finished)
    asking = asyncio.create_task(client())
    await entered.wait()
    release.set()
    await asking
    assert order == ["reported", "answered"]


async def test_a_report_that_fails_does_not_cost_the_answer(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets its whole answer; the failure is counted and logged by its code."""

    async def finished(reply: Reply) -> None:
        raise StoreBusy("secret-location")

    proxy.provider.handler = streaming(STREAM)
    proxy.script.decide = lambda incoming: Forward(body=incoming.body, finished=finished)
    with caplog.at_level(logging.WARNING):
        async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
            assert (answer.status, await answer.read()) == (200, STREAM)
    assert proxy.app.failures == {"finished.store_busy": 1}
    assert [record.getMessage() for record in caplog.records] == ["an answer was relayed but not recorded: store_busy"]


async def test_a_conversation_that_cannot_be_opened_is_forwarded_as_it_came(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure behind the seam costs the client nothing; what it sent is not in the log."""

    def decide(incoming: Incoming) -> Forward:
        raise ThreadkeepError(f"cannot read {incoming.body.decode()}")

    proxy.script.decide = decide
    proxy.provider.handler = streaming(STREAM)
    with caplog.at_level(logging.WARNING):
        async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY, headers={"X-Mine": "1"}) as answer:
            assert await answer.read() == STREAM
    [seen] = proxy.provider.seen
    assert (seen.body, seen.named(b"x-mine")) == (BODY, [(b"x-mine", b"1")])
    assert proxy.app.failures == {"open.threadkeep_error": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "a conversation could not be opened and was forwarded as it came: threadkeep_error"
    ]


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_gateway_answers_in_the_form_that_was_asked_for(proxy: Proxy, *, streamed: bool) -> None:
    """An answer of the gateway's own is a stream or one object, as the request says, and the provider is not asked."""
    proxy.script.decide = lambda incoming: Answered(text="compacted")
    body = json.dumps({"model": "gpt", "stream": streamed}).encode()
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=body) as answer:
        written = await answer.read()
    write = render_answer_stream if streamed else render_answer
    said = Answer(text="compacted", response_id="resp_1", message_id="msg_2", model="gpt", created_at=1_700_000_000)
    assert written == write(said)
    assert answer.content_type == ("text/event-stream" if streamed else "application/json")
    assert proxy.provider.seen == []


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"stream": "yes"}', b"[" * 100_000])
async def test_a_body_that_cannot_be_read_is_still_answered(proxy: Proxy, body: bytes) -> None:
    """What says nothing about the form of its answer gets one object."""
    proxy.script.decide = lambda incoming: Answered(text="ok")
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=body) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")


async def test_a_refusal_has_the_providers_shape(proxy: Proxy) -> None:
    """Status, code and message of a refusal reach the client; the provider is not asked."""
    proxy.script.decide = lambda incoming: Refused(status=400, code="context_length_exceeded", message="too long")
    async with proxy.client.post(f"{proxy.url}/responses", data=BODY) as answer:
        error = {"message": "too long", "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}
        assert (answer.status, await answer.json()) == (400, {"error": error})
    assert proxy.provider.seen == []


async def test_a_long_request_below_the_limit_arrives_whole(proxy: Proxy) -> None:
    """Megabytes are forwarded byte for byte, with their length announced."""
    body = bytes(range(256)) * 10_000
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BytesIO(body)) as answer:
        assert answer.status == 200
    [seen] = proxy.provider.seen
    assert (seen.body, proxy.script.opened[0].body) == (body, body)
    assert seen.named(b"content-length") == [(b"content-length", b"2560000")]


@pytest.mark.parametrize("announced", [True, False])
async def test_a_request_beyond_the_limit_is_refused(proxy: Proxy, *, announced: bool) -> None:
    """Too long is refused by the announced length, or by what was read where none was announced."""

    async def pieces() -> Any:
        for _ in range(4):
            yield b"x" * 1_000_000

    data = BytesIO(b"x" * 4_000_000) if announced else pieces()
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=data) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (413, "request_too_large")
    assert (proxy.script.opened, proxy.provider.seen) == ([], [])


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/responses"), ("POST", "/v1/responses/r/cancel"), ("POST", "/v1/messages/batches")]
)
async def test_other_requests_are_no_conversation(proxy: Proxy, method: str, path: str) -> None:
    """Only a POST to the route of a dialect is opened as a conversation."""
    async with proxy.client.request(method, proxy.url + path) as answer:
        assert answer.status == 200
    assert (proxy.script.opened, proxy.provider.seen[0].target) == ([], path)


async def test_a_refusal_of_the_provider_is_relayed_and_reported(proxy: Proxy) -> None:
    """An error answer reaches the client as it is; the conversation learns that nothing was answered."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=429, body=b'{"error": {}}', headers={"Retry-After": "3"})

    proxy.provider.handler = handler
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert (answer.status, answer.headers["Retry-After"], await answer.read()) == (429, "3", b'{"error": {}}')
    assert proxy.script.replies == [Reply(outcome="failed")]


async def test_a_stream_that_breaks_off_is_reported_as_cut(proxy: Proxy) -> None:
    """The client gets what came and an error, nothing made up; the conversation gets what was whole by then."""
    half = STREAM[: STREAM.index(b"event: response.completed")]

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=STREAMED)
        await answer.prepare(request)
        await answer.write(half)
        assert request.transport is not None
        request.transport.abort()
        return answer

    proxy.provider.handler = handler
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        assert await answer.content.readexactly(len(half)) == half
        with pytest.raises(ClientPayloadError):
            await answer.content.read()
    assert proxy.script.replies == [reply_to(half)]
    assert (reply_to(half).outcome, len(reply_to(half).items)) == ("cut", 1)


async def test_any_server_is_told_that_a_stream_broke_off(proxy: Proxy) -> None:
    """The application raises where it cannot end its answer: a server that only saw it return could end the answer as whole."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=STREAMED)
        await answer.prepare(request)
        await answer.write(STREAM[:100])
        assert request.transport is not None
        request.transport.abort()
        return answer

    ends: list[bool] = []

    async def send(message: Any) -> None:
        ends.append(message.get("more_body") is False)

    proxy.provider.handler = handler
    with pytest.raises(ClientPayloadError):
        await proxy.app(_scope(), _client(), send)
    assert ends == [False] * len(ends)


async def test_a_client_that_leaves_is_reported_as_cut(proxy: Proxy) -> None:
    """The conversation learns what was answered until the client left, and that it is not whole."""
    begun = STREAM[:200]

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=STREAMED)
        await answer.prepare(request)
        await answer.write(begun)
        await asyncio.Event().wait()
        return answer

    proxy.provider.handler = handler
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        await answer.content.readany()
        answer.close()
    await proxy.script.replied.wait()
    assert proxy.script.replies == [reply_to(begun)]


async def test_a_report_is_finished_even_if_the_client_leaves_during_it(proxy: Proxy) -> None:
    """A client that leaves while its reply is being written down does not stop that."""
    entered, release, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    written: list[Reply] = []

    async def finished(reply: Reply) -> None:
        entered.set()
        await release.wait()
        written.append(reply)
        done.set()

    cut = STREAM.index(b"event: response.completed")
    proxy.provider.handler = streaming(STREAM[:cut], STREAM[cut:])
    proxy.script.decide = lambda incoming: Forward(body=incoming.body, finished=finished)
    left = asyncio.Event()
    receive, sent = _client(), list[Any]()

    async def leaving() -> Any:
        if not left.is_set():
            message = receive()
            waiting = asyncio.ensure_future(message)
            gone = asyncio.ensure_future(left.wait())
            await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if waiting.done():
                return waiting.result()
            waiting.cancel()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    serving = asyncio.create_task(proxy.app(_scope(), leaving, send))
    await entered.wait()
    left.set()
    # The gateway notices within two turns of the loop and must then wait; a report that was cancelled would never be done.
    for _ in range(5):
        await checkpoint()
    release.set()
    await done.wait()
    await serving
    assert written == [reply_to(STREAM)]


async def test_a_client_that_left_while_its_request_was_opened_asks_nothing(proxy: Proxy) -> None:
    """The provider is not troubled for nobody; the conversation learns that no answer came."""
    left = asyncio.Event()

    def decide(incoming: Incoming) -> Forward:
        left.set()
        return Forward(body=incoming.body, finished=proxy.script.finished)

    receive = _client()

    async def leaving() -> Any:
        return {"type": "http.disconnect"} if left.is_set() else await receive()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    # An idle connection to the provider is at hand, so that a request would be written at once.
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY) as answer:
        await answer.read()
    proxy.provider.seen.clear()
    proxy.script.replies.clear()
    proxy.script.decide = decide
    await proxy.app(_scope(), leaving, send)
    assert (proxy.provider.seen, proxy.script.replies) == ([], [Reply(outcome="cut")])
