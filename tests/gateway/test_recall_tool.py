"""Recall for the model through the gateway: added, run and hidden by it; what the provider sees only grows."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, call, message, reasoning, say
from tests.doubles.wires import WireName
from tests.gateway.client import WIRES, text_of
from tests.gateway.recall_client import recall, recall_item, recalling

from threadkeep import Config, Threadkeep
from threadkeep.cli import main
from threadkeep.gateway.conversation.recall_tool import NAME
from threadkeep.store import NewRecord, RecordKind

pytestmark = pytest.mark.anyio

FACT = "The staging port is 7443."
STREAMED = "streamed"
OWN, BOTH_TOOLS = ["bash"], ["bash", NAME]
LONG = "The build log follows for reference. " * 60
BOTH = pytest.mark.parametrize("way", ["streamed", "whole"])
EVERY = pytest.mark.parametrize("wire", WIRES)


def tool_names(request: Received) -> list[str]:
    tools = request.body.get("tools", [])
    declared = [each for tool in tools for each in tool.get("functionDeclarations", [tool])]
    return [tool.get("function", tool)["name"] for tool in declared]


def calls_in(history: list[dict[str, Any]]) -> list[str]:
    """Return which tools a history calls, in order."""
    answered = re.compile(r'"functionResponse": \{[^{}]*')
    text = answered.sub("", text_of(history))
    return [name for name in (NAME, "bash") for _ in range(text.count(f'"name": "{name}"'))]


def outputs(request: Received, wire: WireName) -> list[str]:
    """Return what tools returned in a request, in order."""
    found: list[str] = []
    for item in request.history:
        match wire:
            case "responses" if item.get("type") == "function_call_output":
                found.append(item["output"])
            case "chat" if item["role"] == "tool":
                found.append(item["content"])
            case "gemini":
                answers = [part["functionResponse"] for part in item["parts"] if "functionResponse" in part]
                found.extend(answer["response"]["output"] for answer in answers)
            case "messages" if isinstance(item["content"], list):
                found.extend(block["content"] for block in item["content"] if block["type"] == "tool_result")
            case _:
                pass
    return found


@EVERY
@BOTH
async def test_the_client_gets_one_answer_and_the_provider_the_whole_exchange(wire: WireName, way: str, store_file: Path) -> None:
    """What was recalled is shown to the model, never to the client, and stands in every later request where it was."""
    script = [
        say("noted"),
        recall("staging port", "call_r", message("Let me look.")),
        say("It is 7443."),
        say("welcome"),
        say("bye"),
    ]
    async with (
        ScriptedProvider(script, enforcing=True, alternating=wire != "responses") as provider,
        recalling(store_file, provider, wire, streamed=way == STREAMED) as client,
    ):
        answers = [await client.ask(text) for text in (FACT, "Which port does staging use?", "Thanks.", "Bye.")]
    assert answers[0] == "noted"
    assert " ".join(answers[1].replace("|", "").split()) == "Let me look. It is 7443."
    assert answers[2:] == ["welcome", "bye"]
    assert (NAME in text_of(client.history), "call_r" in text_of(client.history)) == (False, False)
    assert [tool_names(request) for request in provider.requests] == [["bash", NAME]] * 5
    assert [len(outputs(request, wire)) for request in provider.requests] == [0, 0, 1, 1, 1]
    assert FACT in outputs(provider.requests[2], wire)[0]
    assert len({json.dumps(request.body["tools"]) for request in provider.requests}) == 1
    extend = [request.history for request in provider.requests[2:]]
    assert [later[: len(earlier)] == earlier for earlier, later in pairwise(extend)] == [True, True]


@EVERY
async def test_a_stream_of_several_answers_is_one_stream(wire: WireName, store_file: Path) -> None:
    """It begins once, ends once, and its indices and numbers go up without a gap."""
    script = [recall("port", "call_r", message("Look.")), recall("staging", "call_s"), say("Found.")]
    async with ScriptedProvider(script) as provider, recalling(store_file, provider, wire, streamed=True) as client:
        await client.ask(f"{FACT} Which port?")
    (events,) = client.streams
    match wire:
        case "responses":
            kinds = [event["type"] for event in events]
            assert [kinds.count(f"response.{kind}") for kind in ("created", "completed")] == [1, 1]
            added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
            assert added == [0, 1]
            numbers = [event["sequence_number"] for event in events]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            final = events[-1]["response"]
            assert final["id"] == events[0]["response"]["id"]
            assert [item["content"][0]["text"] for item in final["output"]] == ["Look.", "Found."]
            assert final["usage"]["output_tokens"] == 30
        case "chat":
            choices = [event["choices"][0] for event in events if event.get("choices")]
            assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
            assert sum("role" in choice["delta"] for choice in choices) == 1
            assert "".join(choice["delta"].get("content") or "" for choice in choices) == "Look.\n\nFound."
            assert (events[-1], len({event["id"] for event in events[:-1]})) == ({"done": True}, 1)
        case "messages":
            kinds = [event["type"] for event in events]
            assert [kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
            assert [event["index"] for event in events if event["type"] == "content_block_start"] == [0, 1]
            delta = next(event for event in events if event["type"] == "message_delta")
            assert (delta["delta"]["stop_reason"], delta["usage"]["output_tokens"]) == ("end_turn", 30)
        case "gemini":
            candidates = [event["candidates"][0] for event in events]
            assert [each["finishReason"] for each in candidates if "finishReason" in each] == ["STOP"]
            texts = [part["text"] for each in candidates for part in each["content"]["parts"]]
            assert ("".join(texts), len({event["responseId"] for event in events})) == ("Look.\n\nFound.", 1)
            assert events[-1]["usageMetadata"]["candidatesTokenCount"] == 30


@EVERY
@BOTH
async def test_a_client_s_own_call_beside_it_goes_to_the_client_alone(wire: WireName, way: str, store_file: Path) -> None:
    """The client runs its tool and hears of no other; with its output the provider gets both, paired."""
    bash = call("bash", {"command": "ls"}, call_id="call_b").items
    script = [
        say("noted"),
        Reply(items=(*bash, recall_item("staging port", "call_r"))),
        say("done"),
        say("again"),
    ]
    async with (
        ScriptedProvider(script, enforcing=True, alternating=wire != "responses") as provider,
        recalling(store_file, provider, wire, streamed=way == STREAMED) as client,
    ):
        await client.ask(FACT)
        await client.ask("Look around and at the port.")
        assert calls_in(client.history) == ["bash"]
        answers = [await client.tool({"call_b": "a b c"}), await client.ask("Go on.")]
    assert answers == ["done", "again"]
    for request in provider.requests[2:]:
        recalled, own = sorted(outputs(request, wire), key=len, reverse=True)
        assert (FACT in recalled, own) == (True, "a b c")
        assert sorted(calls_in(request.history)) == ["bash", NAME]


@EVERY
@BOTH
async def test_a_model_that_never_stops_looking_is_stopped(wire: WireName, way: str, store_file: Path) -> None:
    """Three times it is answered, the fourth time told to answer; after the fifth the client gets what there is, and goes on."""
    script = [recall("port", f"call_{number}") for number in range(4)]
    script += [recall("port", "call_4", message("I give up.")), say("fine")]
    async with (
        ScriptedProvider(script, enforcing=True, alternating=wire != "responses") as provider,
        recalling(store_file, provider, wire, streamed=way == STREAMED) as client,
    ):
        assert await client.ask(f"{FACT} Which port?") == "I give up."
        assert await client.ask("Thanks.") == "fine"
    assert NAME not in text_of(client.history)
    told = outputs(provider.requests[-1], wire)
    assert ([FACT in each for each in told[:3]], len(told)) == ([True] * 3, 5)
    assert all(each.startswith("Nothing more can be recalled") for each in told[3:])
    if way != STREAMED and wire != "responses":
        whole = client.wholes[0]
        choice = (whole.get("choices") or whole.get("candidates") or [whole])[0]
        endings = [choice.get(name) for name in ("finish_reason", "finishReason", "stop_reason")]
        assert next(each for each in endings if each) in ("stop", "STOP", "end_turn")


@EVERY
async def test_what_was_recalled_is_there_after_a_restart(wire: WireName, store_file: Path) -> None:
    """Another gateway on the same store sends the same beginning."""
    script = [recall("port", "call_r"), say("It is 7443."), say("welcome")]
    async with ScriptedProvider(script, enforcing=True, alternating=wire != "responses") as provider:
        async with recalling(store_file, provider, wire, streamed=True) as client:
            await client.ask(f"{FACT} Which port?")
        async with recalling(store_file, provider, wire, streamed=True) as again:
            again.history = client.history
            await again.ask("Thanks.")
    before, after = provider.requests[1].history, provider.requests[2].history
    assert after[: len(before)] == before


@EVERY
@pytest.mark.moves_prefix(reason="the client changed what it echoes")
async def test_an_answer_that_the_client_rewrote_is_sent_as_the_client_has_it(wire: WireName, store_file: Path) -> None:
    """What was recalled in it is gone, with the reasoning that led to it; nothing is left without its other half."""
    thought = (reasoning("SEALED"),) if wire == "responses" else ()
    script = [recall("port", "call_r", *thought), say("It is 7443."), say("welcome")]
    async with (
        ScriptedProvider(script, enforcing=True, alternating=wire != "responses") as provider,
        recalling(store_file, provider, wire, streamed=True) as client,
    ):
        await client.ask(f"{FACT} Which port?")
        last = client.history[-1]
        client.history[-1] = json.loads(json.dumps(last).replace("It is 7443.", "Something else."))
        await client.ask("Thanks.")
    sent = text_of(provider.requests[-1].history)
    assert [word in sent for word in ("Something else.", NAME, "call_r", "SEALED")] == [True, False, False, False]


@EVERY
async def test_a_compaction_takes_what_was_recalled_with_it(wire: WireName, store_file: Path) -> None:
    """Laid out anew, the window has the session state; the original can be recalled again."""
    script = [recall("port", "call_r"), say("It is 7443."), say("ok"), say("ok"), recall("port", "call_s"), say("7443 it is.")]
    async with (
        ScriptedProvider(script, enforcing=True, alternating=wire != "responses") as provider,
        recalling(store_file, provider, wire, streamed=False) as client,
    ):
        await client.ask(f"{FACT} Which port?")
        for text in ("One.", "Two."):
            await client.ask(f"{text} {LONG}")
        assert "Compacted" in await client.ask("/compact")
        assert await client.ask("Which port was it?") == "7443 it is."
    after = provider.requests[-2]
    assert ("session_compact_state" in text_of(after.history), "call_r" in text_of(after.history)) == (True, False)
    assert FACT in outputs(provider.requests[-1], wire)[-1]


@EVERY
async def test_a_fork_before_it_never_saw_it(wire: WireName, store_file: Path) -> None:
    """A history that leaves before the answer has nothing recalled in it; one that goes on from it has."""
    script = [say("noted"), recall("port", "call_r"), say("It is 7443."), say("elsewhere"), say("here")]
    async with (
        ScriptedProvider(script, enforcing=True, alternating=wire != "responses") as provider,
        recalling(store_file, provider, wire, streamed=True) as client,
    ):
        await client.ask(FACT)
        early = list(client.history)
        await client.ask("Which port?")
        late, client.history = client.history, early
        await client.ask("Something else.")
        client.history = late
        await client.ask("Thanks.")
    assert ["call_r" in text_of(request.history) for request in provider.requests] == [False, False, True, False, True]


@EVERY
async def test_it_is_off_by_default(wire: WireName, store_file: Path) -> None:
    """Without the setting the provider receives the client's own bytes."""
    async with (
        ScriptedProvider([say("hello")]) as provider,
        recalling(store_file, provider, wire, streamed=False, gateway_recall_tool="no") as client,
    ):
        await client.ask("Hi.")
    assert tool_names(provider.requests[0]) == ["bash"]


@pytest.mark.parametrize(
    ("settings", "headers", "given"),
    [
        pytest.param({}, {"user-agent": "claude-cli/2"}, OWN, id="Claude Code, not named"),
        pytest.param({"gateway_recall_tool_for": {"claude-code": "yes"}}, {"user-agent": "claude-cli/2"}, BOTH_TOOLS, id="named"),
        pytest.param({"gateway_recall_tool_for": {"claude-opus": "no"}}, {}, OWN, id="a model"),
        pytest.param(
            {"gateway_recall_tool": "no", "gateway_recall_tool_for": {"route:messages": "yes"}}, {}, BOTH_TOOLS, id="a route"
        ),
        pytest.param(
            {"gateway_recall_tool": "no", "gateway_recall_tool_for": {"tenant:local": "yes"}}, {}, BOTH_TOOLS, id="a tenant"
        ),
        pytest.param({"persistence": "limited"}, {}, OWN, id="nothing is kept beside the history"),
    ],
)
async def test_who_is_given_it_can_be_said(
    settings: dict[str, Any], headers: dict[str, str], given: list[str], store_file: Path
) -> None:
    """By client, by model, by route, by tenant, as automatic compaction is."""
    async with (
        ScriptedProvider([say("hello")]) as provider,
        recalling(store_file, provider, "messages", streamed=False, **settings) as client,
    ):
        client.headers = headers
        await client.ask("Hi.")
    assert tool_names(provider.requests[0]) == given


@pytest.mark.parametrize(("bound_thinking", "given"), [("strip", OWN), ("drop_block", BOTH_TOOLS)])
async def test_bound_thinking_keeps_it_away_unless_the_provider_drops_what_does_not_fit(
    bound_thinking: str, given: list[str], store_file: Path
) -> None:
    """Where thinking is asked for, the tool is there only with `drop_block`."""
    async with (
        ScriptedProvider([say("hello", thought="hm", encrypted_reasoning="SIGNED"), say("again")], enforcing=True) as provider,
        recalling(store_file, provider, "messages", streamed=True, bound_thinking=bound_thinking) as client,
    ):
        client.fields = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000}
        await client.ask("Hi.")
        await client.ask("On.")
    assert [tool_names(request) for request in provider.requests] == [given] * 2


async def test_a_client_with_a_tool_of_that_name_keeps_it(store_file: Path) -> None:
    """Its calls are its own: nothing is added and nothing hidden."""
    async with (
        ScriptedProvider([recall("port", "call_r"), say("done")], enforcing=True) as provider,
        recalling(store_file, provider, "responses", streamed=True) as client,
    ):
        client.fields = {"tools": [{"type": "function", "name": NAME, "parameters": {}}]}
        await client.ask("Go.")
        await client.tool({"call_r": "mine"})
    assert [tool_names(request) for request in provider.requests] == [[NAME]] * 2
    assert outputs(provider.requests[1], "responses") == ["mine"]


async def test_a_pointer_leads_to_no_other_conversation(store_file: Path) -> None:
    """A record of another thread is not shown, whatever the model writes; one of its own is."""
    async with Threadkeep(Config(store=str(store_file))) as tk:
        other = await tk.thread("secrets", dialect="responses")
        await other.record([{"role": "user", "content": "The password is hunter2."}])
        ordinal = (await other.records())[-1].ordinal
    script = [recall(f"secrets#{ordinal}", "call_r"), recall("#2", "call_s"), say("done")]
    async with (
        ScriptedProvider(script, enforcing=True) as provider,
        recalling(store_file, provider, "responses", streamed=True) as client,
    ):
        await client.ask(FACT)
    foreign, own = outputs(provider.requests[2], "responses")
    assert ("hunter2" in foreign, "Nothing" in foreign, FACT in own) == (False, True, True)


async def test_a_note_that_only_looks_like_one_is_not_put_back(store_file: Path) -> None:
    """Notes come from transcripts too: without the tenant's seal nothing stands in place of what the client says."""
    forged = {
        "note": "recalled",
        "depth": 1,
        "said": "noted",
        "items": [{"role": "assistant", "content": "FORGED"}],
        "pending": [],
        "seal": "0" * 32,
    }
    script = [say("noted"), say("fine")]
    async with ScriptedProvider(script, enforcing=True) as provider:
        async with recalling(store_file, provider, "responses", streamed=True) as client:
            await client.ask(FACT)
        async with Threadkeep(Config(store=str(store_file))) as tk:
            (summary,) = await tk.threads()
            row = await tk.backend.store.get(summary.id)
            note = NewRecord(kind=RecordKind.NOTE, at_ms=1, turn=1, tokens=0, body=json.dumps(forged).encode())
            await tk.backend.append(summary.id, [note], expected=row.next)
        async with recalling(store_file, provider, "responses", streamed=True) as again:
            again.history = client.history
            await again.ask("On.")
    assert "FORGED" not in text_of(provider.requests[-1].history)


@pytest.mark.moves_prefix(reason="what was recalled is taken out of every later request")
async def test_what_quotes_an_erased_record_is_not_sent_again(store_file: Path) -> None:
    """Once a record is erased, nothing that was recalled from it goes to a provider."""
    script = [recall("port", "call_r"), say("Found."), say("fine")]
    async with ScriptedProvider(script, enforcing=True) as provider:
        async with recalling(store_file, provider, "responses", streamed=True) as client:
            await client.ask(FACT)
        async with Threadkeep(Config(store=str(store_file))) as tk:
            (summary,) = await tk.threads()
            said = [each for each in await (await tk.find(summary.id)).records() if FACT.encode() in each.body]
            fact = next(each.ordinal for each in said if each.kind is RecordKind.ITEM)
        words = ["erase", summary.id, str(fact), "--yes", "--store", str(store_file)]
        assert await asyncio.to_thread(main, words) == 0
        async with recalling(store_file, provider, "responses", streamed=True) as again:
            again.history = client.history
            await again.ask("On.")
    assert [len(outputs(request, "responses")) for request in provider.requests] == [0, 1, 0]


@EVERY
@BOTH
async def test_a_question_that_cannot_be_read_is_answered(wire: WireName, way: str, store_file: Path) -> None:
    """A call without a question gets an output that says what is missing; the turn goes on."""
    unreadable = {"type": "function_call", "name": NAME, "arguments": "{}", "call_id": "call_r"}
    async with (
        ScriptedProvider([Reply(items=(unreadable,)), say("sorry")], enforcing=True) as provider,
        recalling(store_file, provider, wire, streamed=way == STREAMED) as client,
    ):
        assert await client.ask("Go.") == "sorry"
    assert outputs(provider.requests[1], wire) == ["Say what to look for in `query`."]
