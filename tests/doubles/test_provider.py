"""The scripted provider: it speaks the real wire, and no request or reply goes unnoticed."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import aiohttp
import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, failed, http_error, message, reasoning, say

pytestmark = pytest.mark.anyio

FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
FUNCTION_OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
THOUGHT = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "SEALED"}
ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
QUESTION = {"role": "user", "content": "go"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def post(url: str, body: Any, *, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as response:
        return response.status, await response.read()


async def ask(provider: ScriptedProvider, history: Any = "go") -> tuple[int, dict[str, Any]]:
    status, raw = await post(f"{provider.url}/responses", {"model": "m", "input": history})
    return status, json.loads(raw)


async def stream(provider: ScriptedProvider, history: Any = "go") -> list[dict[str, Any]]:
    status, raw = await post(f"{provider.url}/responses", {"model": "m", "input": history, "stream": True})
    assert status == 200
    events = []
    for block in raw.decode().removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


async def test_a_message_streams_as_every_event_a_real_provider_sends() -> None:
    """A message is added empty, grows by several deltas that join to its text, and ends in a response with usage."""
    async with ScriptedProvider([say("hello there", input_tokens=7)]) as provider:
        events = await stream(provider)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "hello there"}
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    assert events[2]["item"] == item | {"status": "in_progress", "content": []}
    assert events[3]["part"] == part | {"text": ""}
    assert "".join(event["delta"] for event in events[4:7]) == "hello there"
    assert events[8]["part"] == part
    assert events[9]["item"] == item
    response = events[10]["response"]
    assert (response["id"], response["status"], response["output"]) == ("resp_1", "completed", [item])
    assert response["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 17,
    }


async def test_reasoning_streams_its_summary_and_a_call_its_arguments() -> None:
    """Both kinds have their own delta events, and the call id left out is numbered."""
    items = (reasoning("SEALED", summary="a thought"), *call("look", {"at": "it"}).items)
    async with ScriptedProvider([Reply(items=items)]) as provider:
        events = await stream(provider)
    kinds = [event["type"].removeprefix("response.") for event in events[2:-1]]
    assert kinds == [
        "output_item.added",
        "reasoning_summary_part.added",
        *["reasoning_summary_text.delta"] * 3,
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        *["function_call_arguments.delta"] * 3,
        "function_call_arguments.done",
        "output_item.done",
    ]
    summary = [{"type": "summary_text", "text": "a thought"}]
    spoken = {"id": "fc_1", "type": "function_call", "status": "completed", "name": "look", "call_id": "call_1"}
    assert events[-1]["response"]["output"] == [
        {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "SEALED"},
        spoken | {"arguments": '{"at": "it"}'},
    ]
    assert events[10]["item"] == spoken | {"status": "in_progress", "arguments": ""}


async def test_an_item_without_a_delta_form_arrives_whole() -> None:
    """A kind the provider does not know is streamed as given, with nothing between added and done."""
    async with ScriptedProvider([Reply(items=({"type": "compaction", "encrypted_content": "SEALED"},))]) as provider:
        events = await stream(provider)
    assert [event["type"].removeprefix("response.") for event in events[2:-1]] == ["output_item.added", "output_item.done"]
    item = {"id": "cmp_1", "type": "compaction", "status": "completed", "encrypted_content": "SEALED"}
    assert events[-1]["response"]["output"] == [item]


async def test_a_request_that_does_not_stream_gets_json() -> None:
    """The plain answer is the response object that a stream would have ended with."""
    async with ScriptedProvider([say("hello"), say("hello")]) as provider:
        status, plain = await ask(provider)
        streamed = (await stream(provider))[-1]["response"]
    assert status == 200
    assert plain["output"][0]["content"][0]["text"] == "hello"
    assert {key for key in plain if plain[key] != streamed[key]} == {"id", "output"}
    assert (plain["output"][0]["id"], streamed["output"][0]["id"]) == ("msg_1", "msg_2")


async def test_two_runs_of_a_script_give_equal_bytes() -> None:
    """Nothing generated depends on time or chance."""
    answers = []
    for _ in range(2):
        async with ScriptedProvider([call("look", {}, encrypted_reasoning="SEALED")]) as provider:
            answers.append(await post(f"{provider.url}/responses", {"input": "go", "stream": True}))
    assert answers[0] == answers[1]


async def test_a_failure_ends_the_stream_with_its_code() -> None:
    """`failed` begins a response and ends it as the provider reports an overflow."""
    async with ScriptedProvider([failed("context_length_exceeded", "too long")]) as provider:
        events = await stream(provider)
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    response = events[-1]["response"]
    assert response["error"] == {"code": "context_length_exceeded", "message": "too long"}
    assert (response["status"], response["usage"]) == ("failed", None)


async def test_a_dropped_stream_ends_after_its_items() -> None:
    """`drop` leaves out the event that completes a response."""
    async with ScriptedProvider([Reply(items=(message("cut"),), drop=True)]) as provider:
        events = await stream(provider)
    assert events[-1]["type"] == "response.output_item.done"


async def test_a_dropped_plain_answer_closes_the_connection() -> None:
    """Without a stream, `drop` gives the client no answer at all."""
    async with ScriptedProvider([Reply(drop=True)]) as provider:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await ask(provider)


async def test_an_http_error_has_the_provider_s_shape() -> None:
    """`http_error` answers with its status and the error object clients parse."""
    async with ScriptedProvider([http_error(429, "slow down", kind="rate_limit_error", code="rate_limited")]) as provider:
        answer = await ask(provider)
    error = {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "rate_limited"}
    assert answer == (429, {"error": error})


async def test_a_reply_with_a_body_answers_on_any_path() -> None:
    """Paths other than responses can be scripted with the JSON to send."""
    async with ScriptedProvider([Reply(body={"output": []})]) as provider:
        answer = await post(f"{provider.url}/responses/compact", {"input": []})
    assert answer == (200, b'{"output": []}')
    assert [(request.method, request.path) for request in provider.requests] == [("POST", "/v1/responses/compact")]


def test_an_error_status_without_a_body_is_refused() -> None:
    """A script that could not be served is refused when it is written."""
    with pytest.raises(ValueError, match="status 503 needs the body"):
        Reply(status=503)


async def test_a_held_reply_completes_when_it_is_let_go() -> None:
    """`hold` keeps the response open after its items, and `arrived` says when the request is there."""
    hold = asyncio.Event()
    async with ScriptedProvider([say("slow", hold=hold), say("fast")]) as provider:
        slow = asyncio.create_task(stream(provider))
        await provider.arrived(1)
        fast = await stream(provider)
        held = not slow.done()
        hold.set()
        assert (held, fast[-1]["response"]["id"], (await slow)[-1]["response"]["id"]) == (True, "resp_2", "resp_1")


async def test_a_client_that_leaves_does_not_hold_up_the_end() -> None:
    """A reply on hold for good is given up with its client."""
    async with asyncio.timeout(20):
        async with ScriptedProvider([say("never", hold=asyncio.Event())]) as provider:
            waiting = asyncio.create_task(stream(provider))
            await provider.arrived(1)
            waiting.cancel()
            await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_unused_replies_fail_the_test_by_name() -> None:
    """Leaving with replies nobody asked for raises, and says which."""
    with pytest.raises(AssertionError) as caught:
        async with ScriptedProvider([say("one"), say("two"), call("look", {"at": 1}), http_error(500, "x")]) as provider:
            await ask(provider)
    assert str(caught.value) == (
        "reply 2 of 4 was never asked for: say 'two'; reply 3 of 4 was never asked for: call look {\"at\": 1}; "
        "reply 4 of 4 was never asked for: HTTP 500"
    )


async def test_surplus_requests_get_an_error_and_fail_the_test() -> None:
    """A request after the script's end, or on a path it does not serve, is answered 500 and remembered."""
    provider = ScriptedProvider([say("one")])
    await provider.__aenter__()
    elsewhere, _ = await post(f"{provider.url}/embeddings", {})
    statuses = [elsewhere, (await ask(provider))[0], (await ask(provider))[0]]
    with pytest.raises(AssertionError) as caught:
        await provider.__aexit__(None, None, None)
    assert statuses == [500, 200, 500]
    assert str(caught.value) == (
        "request 1 (POST /v1/embeddings) has no reply in the script; request 3 (POST /v1/responses) has no reply in the script"
    )


async def test_an_error_on_its_way_out_is_not_replaced() -> None:
    """A failing test reports its own error, not the replies it never came to ask for."""
    with pytest.raises(LookupError, match="the real one"):
        async with ScriptedProvider([say("unused")]):
            raise LookupError("the real one")


async def test_a_request_is_kept_without_its_credential() -> None:
    """Headers have lower-case names, the key is gone, and that there was one is known."""
    headers = {"Authorization": "Bearer sk-secret", "X-Api-Key": "sk-secret", "Session-Id": "s1"}
    async with ScriptedProvider([say("one"), say("two")]) as provider:
        await post(f"{provider.url}/responses", {"input": "go"}, headers=headers)
        await ask(provider, [QUESTION])
    first, second = provider.requests
    assert (first.authorised, second.authorised) == (True, False)
    assert first.headers["session-id"] == "s1"
    assert "sk-secret" not in repr(first)
    assert (first.raw, first.body) == (b'{"input": "go"}', {"input": "go"})
    assert first.input == second.input == [QUESTION]


async def test_large_bodies_are_accepted() -> None:
    """A history of several megabytes, far over the server's usual limit, arrives whole."""
    text = "x" * 8_000_000
    body = io.BytesIO(json.dumps({"input": text}).encode())
    async with (
        ScriptedProvider([say("read it")]) as provider,
        aiohttp.ClientSession() as session,
        session.post(f"{provider.url}/responses", data=body) as response,
    ):
        assert response.status == 200
    assert provider.requests[0].body["input"] == text


async def test_the_list_of_models_is_empty_and_not_part_of_the_script() -> None:
    """Clients that ask for models first get a list in either shape they read, and nothing is recorded."""
    async with (
        ScriptedProvider([]) as provider,
        aiohttp.ClientSession() as session,
        session.get(f"{provider.url}/models") as response,
    ):
        assert await response.json() == {"object": "list", "data": [], "models": []}
    assert provider.requests == []


REFUSED = {
    "orphaned output": ([QUESTION, FUNCTION_OUTPUT], "input[1]: call id 'c1' has an output but no call before it"),
    "output before its call": ([FUNCTION_OUTPUT, FUNCTION_CALL], "input[0]: call id 'c1' has an output but no call before it"),
    "call without output": ([FUNCTION_CALL, QUESTION], "input: call id 'c1' has no output"),
    "call id twice": ([FUNCTION_CALL, FUNCTION_OUTPUT, FUNCTION_CALL], "input[2]: call id 'c1' is used twice"),
    "second output": ([FUNCTION_CALL, FUNCTION_OUTPUT, FUNCTION_OUTPUT], "input[2]: call id 'c1' has a second output"),
    "reasoning before a user": ([THOUGHT, QUESTION], "input[0]: reasoning 'rs_9' is not followed by the item it belongs to"),
    "reasoning before an output": (
        [FUNCTION_CALL, THOUGHT, FUNCTION_OUTPUT],
        "input[1]: reasoning 'rs_9' is not followed by the item it belongs to",
    ),
    "reasoning at the end": ([QUESTION, THOUGHT], "input[1]: reasoning 'rs_9' is not followed by the item it belongs to"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_enforcing_provider_refuses_a_broken_history(name: str) -> None:
    """What a real provider answers with 400 is answered so here, recorded, and costs no reply of the script."""
    history, fault = REFUSED[name]
    async with ScriptedProvider([say("fine")], enforcing=True, issued={"SEALED"}) as provider:
        answer = await ask(provider, history)
        mended, _ = await ask(provider, [QUESTION])
    error = {"message": fault, "type": "invalid_request_error", "param": "input", "code": None}
    assert answer == (400, {"error": error})
    assert (mended, len(provider.requests), provider.refusals) == (200, 2, [f"request 1, {fault}"])


@pytest.mark.parametrize(
    "history",
    [
        "go",
        [QUESTION, THOUGHT, ANSWER, QUESTION],
        [QUESTION, THOUGHT, FUNCTION_CALL, FUNCTION_OUTPUT],
        [FUNCTION_CALL, FUNCTION_CALL | {"call_id": "c2"}, FUNCTION_OUTPUT | {"call_id": "c2"}, FUNCTION_OUTPUT],
        [FUNCTION_CALL | {"type": "custom_tool_call"}, FUNCTION_OUTPUT | {"type": "custom_tool_call_output"}],
    ],
)
async def test_an_enforcing_provider_accepts_a_whole_history(history: Any) -> None:
    """Pairs in any order, parallel calls and reasoning beside its item pass."""
    async with ScriptedProvider([say("fine")], enforcing=True, issued={"SEALED"}) as provider:
        status, _ = await ask(provider, history)
    assert (status, provider.refusals) == (200, [])


async def test_a_refusal_is_named_when_its_reply_stays_unused() -> None:
    """A test that fails because its request was refused says so."""
    with pytest.raises(AssertionError, match="a request was refused: request 1, input: call id 'c1' has no output"):
        async with ScriptedProvider([say("never")], enforcing=True) as provider:
            await ask(provider, [FUNCTION_CALL])


async def test_a_lenient_provider_takes_any_history() -> None:
    """Without `enforcing`, a broken history is answered like any other."""
    async with ScriptedProvider([say("fine")]) as provider:
        assert (await ask(provider, [FUNCTION_OUTPUT]))[0] == 200
