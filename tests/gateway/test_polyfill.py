"""What clients ask of their provider beside their turns works with one that lacks it, and is the provider's where it has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, http_error, say
from tests.gateway.test_response_chain import LONG, TOOL

from threadkeep.gateway.serve import running_gateway
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from threadkeep import Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.moves_prefix(reason="each test begins in the middle of a session")]

Json = dict[str, Any]

HEAD = {"role": "developer", "content": "Never push."}
HISTORY: list[Json] = [
    {"role": "user", "content": "Never touch vendor/. Begin."},
    {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": LONG},
    {"role": "assistant", "content": [{"type": "output_text", "text": "built"}]},
    {"role": "user", "content": "Go on."},
    {"role": "assistant", "content": [{"type": "output_text", "text": "gone on"}]},
]
TRIGGER = {"type": "compaction_trigger"}
SEALED = {"type": "compaction", "id": "cmp_9", "encrypted_content": "SEALED"}
MISSING = http_error(404, "Not Found")


async def post(session: ClientSession, url: str, path: str, body: Json) -> tuple[int, str]:
    async with session.post(f"{url}/v1{path}", json={"model": "m", **body}) as answer:
        return answer.status, await answer.text()


def read_item(path: str, text: str) -> Json:
    """Return the only item of an answer."""
    if path == "/responses/compact":
        [item] = json.loads(text)["output"]
        return dict(item)
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events][-2:] == ["response.output_item.done", "response.completed"]
    assert events[-1]["response"]["output"] == [events[-2]["item"]]
    return dict(events[-2]["item"])


@pytest.mark.parametrize(
    ("path", "asks", "answer"),
    [
        ("/responses/compact", [], MISSING),
        ("/responses", [TRIGGER], say("I was asked to compact.")),
        ("/responses", [TRIGGER], http_error(400, "unknown item type: compaction_trigger")),
    ],
    ids=["its own path", "a trigger that is ignored", "a trigger that is refused"],
)
async def test_a_history_is_compacted_here_where_the_provider_cannot(
    tk: Threadkeep, path: str, asks: list[Json], answer: Reply
) -> None:
    """The client gets one item and keeps it; with it the provider gets the checkpoint's window, and the thread goes on."""
    stream = {"stream": path == "/responses", "store": False, "tools": [TOOL]}
    async with (
        ScriptedProvider([answer, say("one"), say("two")], enforcing=False) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        status, text = await post(session, url, path, {"input": [HEAD, *HISTORY, *asks], **stream})
        assert status == 200
        item = read_item(path, text)
        assert item["type"] == "compaction"
        kept: list[Json] = [HEAD, HISTORY[0], HISTORY[4], item, {"role": "user", "content": "THREE"}]
        await post(session, url, "/responses", {"input": kept, "store": False, "tools": [TOOL]})
        said = {"role": "assistant", "content": [{"type": "output_text", "text": "one"}]}
        kept += [said, {"role": "user", "content": "FOUR"}]
        await post(session, url, "/responses", {"input": kept, "store": False, "tools": [TOOL]})
    for request in provider.requests[1:]:
        sent = json.dumps(request.input)
        assert request.input[0] == HEAD
        assert [word in sent for word in ("session_compact_state", "Never touch vendor/.", LONG, "threadkeep:")] == [
            True,
            True,
            False,
            False,
        ]
    [row] = await tk.threads()
    kinds = [record.kind for record in await (await tk.find(row.id)).records()]
    assert kinds.count(RecordKind.CHECKPOINT) == 1
    assert (await tk.verify()).ok


@pytest.mark.parametrize("path", ["/responses/compact", "/responses"])
async def test_a_providers_own_compaction_passes_through(tk: Threadkeep, path: str) -> None:
    """What it sealed is what the client gets, byte for byte."""
    own = Reply(body={"output": [SEALED]}) if path == "/responses/compact" else Reply(items=(SEALED,))
    asks = [TRIGGER] if path == "/responses" else []
    async with (
        ScriptedProvider([own]) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        status, text = await post(session, url, path, {"input": [*HISTORY, *asks], "stream": True, "store": False})
    assert (status, "SEALED" in text, "threadkeep:" in text) == (200, True, False)
    assert await tk.threads() == []


async def test_a_failure_of_the_provider_is_no_lack(tk: Threadkeep) -> None:
    """A rate limit, an unknown model and a history that does not fit are told to the client."""
    refusals = [
        http_error(429, "slow down"),
        http_error(404, "The model `m` does not exist"),
        http_error(400, "context window exceeded"),
    ]
    async with (
        ScriptedProvider(refusals) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        asked = [await post(session, url, "/responses/compact", {"input": HISTORY}) for _ in refusals]
    assert [status for status, _ in asked] == [429, 404, 400]


async def test_an_item_of_another_store_is_left_to_the_provider(tk: Threadkeep) -> None:
    """It names nothing here; the request goes out as it came."""
    item = {"type": "compaction", "encrypted_content": "threadkeep:t1.2"}
    body = {"input": [item, {"role": "user", "content": "ONE"}], "store": False}
    async with (
        ScriptedProvider([say("one")]) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        await post(session, url, "/responses", body)
    assert provider.requests[0].input == body["input"]


async def test_tokens_are_counted_here_where_the_provider_cannot(tk: Threadkeep) -> None:
    """An estimate that the provider's own counts have corrected, in its form."""
    messages = [{"role": "user", "content": "Begin. " + LONG}]
    body: Json = {"messages": messages, "max_tokens": 10}

    async with (
        ScriptedProvider([say("one", input_tokens=9_000)], counts_tokens=False) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        before = json.loads((await post(session, url, "/messages/count_tokens", body))[1])["input_tokens"]
        await post(session, url, "/messages", body)
        after = json.loads((await post(session, url, "/messages/count_tokens", body))[1])["input_tokens"]
    assert len(LONG) // 8 < before < len(LONG)
    assert after == pytest.approx(9_000, rel=0.05)
    assert len(await tk.threads()) == 1


async def test_geminis_tokens_are_counted_here_where_the_provider_cannot(tk: Threadkeep) -> None:
    """In its form, which its own client reads; a count is no turn and begins no thread."""
    contents = [{"role": "user", "parts": [{"text": "Begin. " + LONG}]}]
    async with (
        ScriptedProvider([say("one", input_tokens=9_000)], counts_tokens=False) as provider,
        running_gateway(tk, upstream=provider.url.removesuffix("/v1")) as url,
        ClientSession() as session,
    ):

        async def ask(method: str) -> Json:
            path = f"{url}/v1beta/models/gemini-3-pro:{method}"
            async with session.post(path, json={"contents": contents}) as answer:
                return dict(await answer.json())

        before = await ask("countTokens")
        await ask("generateContent")
        after = await ask("countTokens")
    assert len(LONG) // 8 < before["totalTokens"] < len(LONG)
    assert after == {"totalTokens": pytest.approx(9_000, rel=0.05)}
    assert len(await tk.threads()) == 1


async def test_calls_that_are_open_stay_with_the_checkpoint(tk: Threadkeep) -> None:
    """A client compacts between a call and its output; both reach the provider."""
    asked = {"type": "function_call", "call_id": "call_2", "name": "bash", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_2", "output": "done"}
    async with (
        ScriptedProvider([MISSING, say("one")], enforcing=True) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        _, text = await post(session, url, "/responses/compact", {"input": [*HISTORY, asked]})
        kept = [read_item("/responses/compact", text), output]
        status, _ = await post(session, url, "/responses", {"input": kept, "store": False})
    assert status == 200
    assert [item.get("type") for item in provider.requests[1].input][-2:] == ["function_call", "function_call_output"]


MANAGEMENT: dict[str, tuple[str, Any, Any]] = {
    "OpenAI compacts": ("/responses", [{"type": "compaction", "compact_threshold": 2_000}], {}),
    "Anthropic compacts": (
        "/messages",
        {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 2_000}}]},
        {"anthropic-beta": "compact-2026-01-12,other-1"},
    ),
    "Anthropic clears": (
        "/messages",
        {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 2_000}}]},
        {"anthropic-beta": "context-management-2025-06-27"},
    ),
}


@pytest.mark.parametrize("name", MANAGEMENT)
async def test_a_provider_that_manages_no_history_gets_a_managed_one(tk: Threadkeep, name: str) -> None:
    """Below the threshold the request goes out without the wish; above it, with our checkpoint's window."""
    path, wish, headers = MANAGEMENT[name]
    field = "input" if path == "/responses" else "messages"
    refusal = http_error(400, "context_management: Extra inputs are not permitted")
    rule, ask = {"role": "user", "content": "Never touch vendor/."}, {"role": "user", "content": "Go on."}
    answers: list[Json] = [{"role": "assistant", "content": text} for text in ("one", "two")]
    histories: list[list[Json]] = [
        [rule],
        [rule, answers[0], {"role": "user", "content": "Look: " + LONG}, answers[1], ask],
    ]
    async with (
        ScriptedProvider([refusal, say("one"), say("two"), say("three")], enforcing=True) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession(headers=headers) as session,
    ):
        for history in (*histories, histories[1]):
            body = {field: history, "context_management": wish, "max_tokens": 100, "store": False}
            assert (await post(session, url, path, body))[0] == 200
    refused, *served = provider.requests
    assert refused.body["context_management"] == wish
    assert not any("context_management" in request.body for request in served)
    assert [request.headers.get("anthropic-beta") for request in served] == [
        {"Anthropic compacts": "other-1", "Anthropic clears": ""}.get(name)
    ] * 3
    states = ["session_compact_state" in json.dumps(request.history) for request in served]
    assert states == [False, True, True]
    assert all("Never touch vendor/." in json.dumps(request.history) for request in served)


async def test_a_number_of_tool_uses_is_no_number_of_tokens(tk: Threadkeep) -> None:
    """Claude Code counts tool uses; what is far below the default of the provider stays whole."""
    wish = {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 30}}]}
    body = {"messages": [{"role": "user", "content": LONG}], "max_tokens": 9, "context_management": wish}
    async with (
        ScriptedProvider([say("one")], manages=False) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        await post(session, url, "/messages", body)
    assert provider.requests[1].history == body["messages"]


async def test_a_provider_that_manages_histories_is_left_alone(tk: Threadkeep) -> None:
    """Its field and headers pass, whatever the size."""
    wish = {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 10}}]}
    body = {"messages": [{"role": "user", "content": LONG}], "max_tokens": 9, "context_management": wish}
    async with (
        ScriptedProvider([say("one")]) as provider,
        running_gateway(tk, upstream=provider.url) as url,
        ClientSession() as session,
    ):
        await post(session, url, "/messages", body)
    assert provider.requests[0].body["context_management"] == wish
