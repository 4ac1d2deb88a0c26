"""A server that speaks Chat Completions alone, behind clients of other languages: each reads what its own provider would say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
from aiohttp import ClientPayloadError, ClientSession, web
from anthropic import APIStatusError, AsyncAnthropic
from openai import AsyncOpenAI
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, http_error, say
from tests.gateway.conftest import Provider
from tests.gateway.test_polyfill import HISTORY, MANAGEMENT, TRIGGER, post, read_item
from tests.gateway.test_response_chain import LONG, TOOL

from threadkeep.gateway.serve import running_gateway

if TYPE_CHECKING:
    from threadkeep import Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.moves_prefix(reason="each test begins in the middle of a session")]

Json = dict[str, Any]

THINKING: Json = {"role": "assistant", "reasoning_content": "Look first.", "content": "I look."}
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "fs__ls", "arguments": '{"path": "a"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "patch", "arguments": '{"input":"*** Begin"}'}},
]
ASKED: Json = {"model": "m", "input": "Begin.", "stream": True}
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 4}}
LS = {
    "type": "function",
    "name": "ls",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    "strict": False,
}
TOOLS: list[Any] = [
    {"type": "namespace", "name": "fs", "description": "Files.", "tools": [LS]},
    {
        "type": "custom",
        "name": "patch",
        "description": "Patch.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "x"},
    },
    {"type": "web_search"},
]
MESSAGES_TOOLS: list[Any] = [
    {"name": name, "description": "", "input_schema": {"type": "object", "properties": {}}} for name in ("fs__ls", "patch")
]


def chunks(message: Json, *, reason: str = "tool_calls") -> list[Json]:
    """Return the events of an answer, a few characters in each."""
    deltas: list[Json] = [{"role": "assistant", "content": None}]
    for name in ("reasoning_content", "content"):
        text = str(message.get(name) or "")
        deltas += [{name: text[at : at + 4]} for at in range(0, len(text), 4)]
    for index, each in enumerate(message.get("tool_calls", ())):
        text = each["function"]["arguments"]
        deltas.append({"tool_calls": [each | {"index": index, "function": {"name": each["function"]["name"], "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": text[at : at + 5]}}]} for at in range(0, len(text), 5)
        ]
    events: list[Json] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, {"choices": [], "usage": USAGE}]


def answering(message: Json, *, ends: bool = True, reason: str = "tool_calls", until: asyncio.Event | None = None) -> Any:
    """Return what serves Chat Completions and nothing else; without `ends` the answer breaks off, with `until` it waits first."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path != "/v1/chat/completions":
            return web.json_response({"detail": "Not Found"}, status=404)
        if not (await request.json()).get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return web.json_response({"id": "chatcmpl-1", "choices": [choice], "usage": USAGE})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        events = chunks(message, reason=reason)
        for event in events if ends else events[:4]:
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        if until is not None:
            await until.wait()
        if ends:
            await response.write(b"data: [DONE]\n\n")
        elif request.transport is not None:
            request.transport.abort()
        return response

    return handle


@asynccontextmanager
async def sdks(tk: Threadkeep, upstream: str) -> AsyncIterator[tuple[AsyncOpenAI, AsyncAnthropic]]:
    async with running_gateway(tk, upstream=upstream) as url:
        anthropic = AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client, anthropic:
            yield client, anthropic


async def test_the_sdk_of_openai_reads_an_answer(tk: Threadkeep, provider: Provider) -> None:
    """Streamed and whole: thoughts, text, a call in a namespace, one in free text, and what it cost."""
    provider.handler = answering(THINKING | {"tool_calls": CALLS})
    kinds: list[str] = []
    async with sdks(tk, provider.url) as (client, _):
        async with client.responses.stream(model="m", input="Begin.", tools=TOOLS) as stream:
            async for event in stream:
                kinds.append(event.type)
                assert event.sequence_number == len(kinds) - 1
            streamed = await stream.get_final_response()
        raw = await client.responses.with_raw_response.create(model="m", input="Begin.", tools=TOOLS)
        whole = raw.parse()
    for response in (streamed, whole):
        thought, said, ls, patch = (item.model_dump(exclude_none=True) for item in response.output)
        assert (thought["type"], thought["summary"][0]["text"]) == ("reasoning", "Look first.")
        assert response.output_text == said["content"][0]["text"] == "I look."
        assert (ls["type"], ls["namespace"], ls["name"], ls["arguments"]) == ("function_call", "fs", "ls", '{"path": "a"}')
        assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "patch", "*** Begin")
        assert response.status == "completed"
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (9, 3, 12)
        assert response.usage.input_tokens_details.cached_tokens == 4
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-1] == "response.completed"
    assert {"response.function_call_arguments.delta", "response.reasoning_summary_text.delta"} < set(kinds)
    assert raw.headers["x-threadkeep-dropped"] == "web_search"
    sent = json.loads(provider.seen[-1].body)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["fs__ls", "patch"]
    assert dict(provider.seen[-1].headers)[b"authorization"] == b"Bearer k"


async def test_the_sdk_of_anthropic_reads_an_answer(tk: Threadkeep, provider: Provider) -> None:
    """Streamed and whole: thinking where it is asked for, text, calls, and what it cost."""
    provider.handler = answering(THINKING | {"tool_calls": CALLS})
    asked: Json = {
        "model": "m",
        "max_tokens": 64,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Begin."}],
        "tools": MESSAGES_TOOLS,
        "thinking": {"type": "enabled", "budget_tokens": 1_024},
    }
    async with sdks(tk, provider.url) as (_, client):
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        whole = await client.messages.create(**asked)
        plain = await client.messages.create(**{**asked, "thinking": {"type": "disabled"}})
    for message in (streamed, whole):
        thought, said, ls, patch = (block.model_dump() for block in message.content)
        assert (thought["thinking"], said["text"]) == ("Look first.", "I look.")
        assert [(each["id"], each["name"], each["input"]) for each in (ls, patch)] == [
            ("call_1", "fs__ls", {"path": "a"}),
            ("call_2", "patch", {"input": "*** Begin"}),
        ]
        assert (message.stop_reason, message.usage.input_tokens, message.usage.cache_read_input_tokens) == ("tool_use", 5, 4)
        assert message.usage.output_tokens == 3
    assert [block.type for block in plain.content] == ["text", "tool_use", "tool_use"]
    assert [message["role"] for message in json.loads(provider.seen[-1].body)["messages"]] == ["system", "user"]
    assert dict(provider.seen[-1].headers)[b"authorization"] == b"Bearer k"


async def test_thoughts_go_back_where_they_came_from(tk: Threadkeep, provider: Provider) -> None:
    """A server gets its own thoughts, in its own field, with the call that they led to; nobody else's."""
    provider.handler = answering(THINKING | {"tool_calls": CALLS[1:]})
    async with sdks(tk, provider.url) as (client, anthropic):
        first = await client.responses.create(model="m", input="Begin.", tools=TOOLS)
        made = [item.model_dump(exclude_none=True) for item in first.output]
        foreign = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Foreign."}], "encrypted_content": "x"}
        output = {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done."}
        history: list[Any] = [{"role": "user", "content": "Begin."}, foreign, *made, output]
        await client.responses.create(model="m", input=history, tools=TOOLS)
        asked: Json = {"model": "m", "max_tokens": 64, "tools": MESSAGES_TOOLS, "thinking": {"type": "adaptive"}}
        messages: list[Any] = [{"role": "user", "content": "Begin."}]
        said = await anthropic.messages.create(**asked, messages=messages)
        result: Json = {"type": "tool_result", "tool_use_id": "call_2", "content": "Done."}
        blocks = [block.model_dump(exclude_none=True) for block in said.content]
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
        await anthropic.messages.create(**asked, messages=messages)
    asked_twice = [json.loads(seen.body)["messages"] for seen in provider.seen if seen.target == "/v1/chat/completions"]
    expected = THINKING | {"tool_calls": CALLS[1:]}
    assert [messages[1:] for messages in asked_twice[1::2]] == [
        [expected, {"role": "tool", "tool_call_id": "call_2", "content": "Done."}]
    ] * 2


async def test_why_an_answer_ended(tk: Threadkeep, provider: Provider) -> None:
    """An answer that was too long is said to be so, in each language's own word."""
    provider.handler = answering(THINKING, reason="length")
    async with sdks(tk, provider.url) as (client, anthropic):
        response = await client.responses.create(model="m", input="Begin.", max_output_tokens=16)
        message = await anthropic.messages.create(model="m", max_tokens=16, messages=[{"role": "user", "content": "Begin."}])
    assert response.incomplete_details is not None
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert message.stop_reason == "max_tokens"
    assert json.loads(provider.seen[-1].body)["max_tokens"] == 16


async def test_errors_come_in_the_clients_words(tk: Threadkeep, provider: Provider) -> None:
    """Status and Retry-After stay; a history that does not fit is one in the word that the client acts on."""
    refusals = {
        429: {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}},
        400: {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
    }
    status = 429

    async def refuse(request: web.Request) -> web.Response:
        if request.path != "/v1/chat/completions":
            return web.Response(status=404)
        return web.json_response(refusals[status], status=status, headers={"retry-after": "7"})

    provider.handler = refuse
    hello: Any = [{"role": "user", "content": "Begin."}]
    async with sdks(tk, provider.url) as (client, anthropic):
        for status in refusals:
            with pytest.raises(openai.APIStatusError) as of_openai:
                await client.responses.create(model="m", input="Begin.")
            with pytest.raises(APIStatusError) as of_anthropic:
                await anthropic.messages.create(model="m", max_tokens=16, messages=hello)
            for told in (of_openai.value, of_anthropic.value):
                assert (told.status_code, told.response.headers["retry-after"]) == (status, "7")
    assert of_openai.value.code == "context_length_exceeded"
    assert "prompt is too long" in str(of_anthropic.value)


async def test_an_answer_that_breaks_off_never_looks_whole(tk: Threadkeep, provider: Provider) -> None:
    """The provider dies in the middle, or fails there: the client is told, and gets no end."""
    provider.handler = answering(THINKING, ends=False)
    async with sdks(tk, provider.url) as (client, anthropic):
        async with ClientSession() as session, session.post(f"{client.base_url}responses", json=ASKED) as answer:
            with pytest.raises(ClientPayloadError):
                await answer.read()
        provider.handler = answering_with(
            [{"choices": [{"index": 0, "delta": {"content": "I"}}]}, {"error": {"message": "out of memory"}}]
        )
        async with client.responses.stream(model="m", input="Begin.") as stream:
            kinds = [event async for event in stream]
        last = kinds[-1].model_dump()
        assert (last["type"], last["response"]["error"]["message"]) == ("response.failed", "out of memory")
        with pytest.raises(APIStatusError, match="out of memory"):
            async with anthropic.messages.stream(
                model="m", max_tokens=16, messages=[{"role": "user", "content": "Begin."}]
            ) as broken:
                await broken.get_final_message()


def answering_with(events: list[Json]) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path != "/v1/chat/completions":
            return web.Response(status=404)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        return response

    return handle


async def test_a_client_that_leaves_ends_the_providers_work(tk: Threadkeep, provider: Provider) -> None:
    """The connection to the provider is closed, which it can notice."""
    provider.handler = answering(THINKING, until=asyncio.Event())
    async with sdks(tk, provider.url) as (client, _):
        async with client.responses.stream(model="m", input="Begin.") as stream:
            async for event in stream:
                if event.type == "response.output_text.delta":
                    break
        async with asyncio.timeout(30):
            await provider.left.wait()


async def test_a_request_that_names_an_answer_brings_its_history(tk: Threadkeep) -> None:
    """The server keeps nothing; the gateway knows every item that went through it."""
    async with (
        ScriptedProvider([say("one"), say("two")], enforcing=True, only_chat=True) as provider,
        sdks(tk, provider.url) as (client, _),
    ):
        first = await client.responses.create(model="m", input="Begin.")
        second = await client.responses.create(model="m", input="Go on.", previous_response_id=first.id)
    assert second.output_text == "two"
    sent = [(message["role"], message["content"]) for message in provider.requests[1].body["messages"]]
    assert sent == [("user", "Begin."), ("assistant", "one"), ("user", "Go on.")]


@pytest.mark.parametrize("path", ["/responses/compact", "/responses"])
async def test_a_clients_own_compaction_is_made_here(tk: Threadkeep, path: str) -> None:
    """Its history becomes a checkpoint, and the next request holds the window of it, as messages of the server's language."""
    asks = [TRIGGER] if path == "/responses" else []
    async with (
        ScriptedProvider([say("one")], enforcing=True, only_chat=True) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        stream = {"stream": path == "/responses", "store": False, "tools": [TOOL]}
        status, text = await post(session, url, path, {"input": [*HISTORY, *asks], **stream})
        assert status == 200
        kept = [HISTORY[0], HISTORY[4], read_item(path, text), {"role": "user", "content": "THREE"}]
        status, _ = await post(session, url, "/responses", {"input": kept, "store": False, "tools": [TOOL]})
    assert status == 200
    sent = json.dumps(provider.requests[0].body["messages"])
    assert [word in sent for word in ("session_compact_state", "Never touch vendor/.", LONG)] == [True, True, False]
    [row] = await tk.threads()
    assert (row.dialect, row.checkpoints) == ("responses", 1)
    assert (await tk.verify()).ok


@pytest.mark.parametrize("name", MANAGEMENT)
async def test_a_history_is_managed_here(tk: Threadkeep, name: str) -> None:
    """Below the threshold nothing happens; above it the server gets our checkpoint's window. It is asked for nothing else."""
    path, wish, headers = MANAGEMENT[name]
    field = "input" if path == "/responses" else "messages"
    rule, ask = {"role": "user", "content": "Never touch vendor/."}, {"role": "user", "content": "Go on."}
    answers: list[Json] = [{"role": "assistant", "content": text} for text in ("one", "two")]
    histories: list[list[Json]] = [[rule], [rule, answers[0], {"role": "user", "content": "Look: " + LONG}, answers[1], ask]]
    async with (
        ScriptedProvider([say("one"), say("two"), say("three")], enforcing=True, only_chat=True) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession(headers=headers) as session,
    ):
        for history in (*histories, histories[1]):
            body = {field: history, "context_management": wish, "max_tokens": 100, "store": False}
            assert (await post(session, url, path, body))[0] == 200
        counted = await post(session, url, "/messages/count_tokens", {"messages": [rule]})
    assert provider.refusals == []
    states = ["session_compact_state" in json.dumps(request.history) for request in provider.requests]
    assert states == [False, True, True]
    assert all("Never touch vendor/." in json.dumps(request.history) for request in provider.requests)
    assert json.loads(counted[1])["input_tokens"] > 0


async def test_a_server_that_lacks_both_says_so_itself(tk: Threadkeep) -> None:
    """Where neither path exists, and where only the model does not, the client gets the provider's own words."""
    async with (
        ScriptedProvider([http_error(404, "no such model")], only_chat=True) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        status, text = await post(session, url, "/responses", {"input": "Begin."})
    assert (status, json.loads(text)) == (404, {"detail": "Not Found"})
    assert provider.unknown_paths == ["/v1/responses"]


@pytest.mark.parametrize(
    "script",
    [
        [http_error(404, "Item with id 'rs_1' not found."), say("one")],
        [say("one"), http_error(404, "Not Found")],
        [http_error(404, "The model `m` does not exist"), say("one")],
    ],
)
async def test_what_a_provider_does_not_find_is_no_path(tk: Threadkeep, script: list[Reply]) -> None:
    """A provider that knows the path is never asked in another language, whatever else it does not find."""
    async with (
        ScriptedProvider(script) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        asked = [await post(session, url, "/responses", {"input": text}) for text in ("One.", "Two.")]
    assert sorted(status for status, _ in asked) == [200, 404]
    assert {request.path for request in provider.requests} == {"/v1/responses"}


async def test_what_a_server_speaks_is_found_out_once(tk: Threadkeep) -> None:
    """The first request asks for the client's own path; later ones do not, and neither does another client's."""
    script: list[Reply] = [call("exec", {"cmd": "ls"}, call_id="call_1"), say("one"), say("two")]
    async with (
        ScriptedProvider(script, enforcing=True, only_chat=True) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        history: list[Json] = [{"role": "user", "content": "Begin."}]
        for text in ("one", "two", "three"):
            await post(session, url, "/responses", {"input": history})
            history.append({"role": "user", "content": text})
    assert provider.unknown_paths == ["/v1/responses"]
