"""What the real Codex CLI sends to a provider, with nothing in between: the shapes the gateway relies on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, call, message, reasoning, say
from tests.drivers.codex import REPORTABLE_TOKENS, CodexCli, CodexRun
from tests.drivers.codex_app_server import app_server

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

CodexAt = Callable[[str], CodexCli]
HEAD_ITEMS = {"0.150.1": 1, "0.166.0": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    runs: tuple[CodexRun, ...]
    requests: tuple[Received, ...]


class Body(msgspec.Struct):
    input: list[msgspec.Raw]


@pytest.fixture
async def conversation(codex_at: CodexAt) -> Conversation:
    """Three turns, each in a process of its own, the second with a command that really runs."""
    command = {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"echo anchored"}', "call_id": "call_echo"}
    script = [
        say("first answer", phase="final_answer", input_tokens=REPORTABLE_TOKENS - 10),
        Reply(items=(reasoning("SEALED", summary="a thought"), message("I will run it.", phase="commentary"), command)),
        say("second answer", encrypted_reasoning="SEALED TOO"),
        say("third answer"),
    ]
    async with ScriptedProvider(script, enforcing=True) as provider:
        codex = codex_at(provider.url)
        first = await codex.exec("USER ONE")
        second = await codex.resume("USER TWO")
        third = await codex.resume("/compact", thread_id=first.thread_id)
    return Conversation(runs=(first, second, third), requests=tuple(provider.requests))


def raw_items(request: Received) -> list[bytes]:
    return [bytes(item) for item in msgspec.json.decode(request.raw, type=Body).input]


def echoed(item: dict[str, Any]) -> dict[str, Any]:
    """Return what is left of an item when its id, status, annotations, log probabilities and absent content are put aside."""
    bare = {key: value for key, value in item.items() if key not in ("id", "status") and (key, value) != ("content", None)}
    if isinstance(bare.get("content"), list):
        bare["content"] = [
            {key: value for key, value in part.items() if key not in ("annotations", "logprobs")} for part in bare["content"]
        ]
    return bare


def metadata(request: Received) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(request.headers["x-codex-turn-metadata"])
    return decoded


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def test_three_turns_are_one_thread_and_all_succeed(conversation: Conversation) -> None:
    """Resuming, with and without naming the thread, continues it, and every answer arrives."""
    outcomes = [(run.exit_code, run.thread_id, run.last_message) for run in conversation.runs]
    thread_id = conversation.runs[0].thread_id
    assert thread_id is not None
    assert outcomes == [(0, thread_id, "first answer"), (0, thread_id, "second answer"), (0, thread_id, "third answer")]


async def test_every_request_begins_with_the_bytes_of_the_one_before(conversation: Conversation) -> None:
    """The history is append-only byte for byte, within a turn and across processes."""
    histories = [raw_items(request) for request in conversation.requests]
    assert [len(later) - len(earlier) for earlier, later in pairwise(histories)] == [2, 4, 3]
    for earlier, later in pairwise(histories):
        assert later[: len(earlier)] == earlier


async def test_the_thread_id_is_the_cache_key_and_the_session_headers(conversation: Conversation) -> None:
    """One id, stable over processes, stands in the body and in three headers."""
    for request in conversation.requests:
        ids = {request.headers[name] for name in ("session-id", "thread-id", "x-client-request-id")}
        assert ids | {request.body["prompt_cache_key"]} == {conversation.runs[0].thread_id}


async def test_the_head_is_developer_items_then_the_environment(conversation: Conversation, codex_version: str) -> None:
    """0.150.1 has top-level instructions and one developer item; 0.166.0 has two developer items and no instructions."""
    first = conversation.requests[0]
    head = HEAD_ITEMS[codex_version]
    assert [item["role"] for item in first.input] == ["developer"] * head + ["user", "user"]
    assert ("instructions" in first.body) == (codex_version == "0.150.1")
    environment = first.input[head]["content"]
    assert [part["type"] for part in environment] == ["input_text"]
    assert environment[0]["text"].startswith("<environment_context>\n")
    assert environment[0]["text"].endswith("\n</environment_context>")
    assert echoed(first.input[head + 1]) == user("USER ONE")


async def test_a_compact_command_is_an_ordinary_user_message(conversation: Conversation) -> None:
    """`codex exec resume /compact` sends the word as typed; Codex gives it no meaning of its own."""
    last = conversation.requests[-1]
    assert echoed(last.input[-1]) == user("/compact")
    assert metadata(last)["request_kind"] == "turn"


async def test_what_the_model_said_comes_back_unchanged(conversation: Conversation) -> None:
    """Echoed items equal the streamed ones but for id, status, annotations, log probabilities and empty content."""
    echo = [echoed(item) for item in conversation.requests[-1].input if "input_text" not in json.dumps(item)]
    said = {"type": "message", "role": "assistant"}
    assert [item for item in echo if item["type"] != "function_call_output"] == [
        said | {"content": [{"type": "output_text", "text": "first answer"}], "phase": "final_answer"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a thought"}], "encrypted_content": "SEALED"},
        said | {"content": [{"type": "output_text", "text": "I will run it."}], "phase": "commentary"},
        {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"echo anchored"}', "call_id": "call_echo"},
        {"type": "reasoning", "summary": [], "encrypted_content": "SEALED TOO"},
        said | {"content": [{"type": "output_text", "text": "second answer"}]},
    ]


async def test_the_provider_s_item_ids_come_back(conversation: Conversation) -> None:
    """Codex keeps the ids of streamed items and gives ids of its own to all others."""
    ids = [item["id"] for item in conversation.requests[-1].input]
    assert [name for name in ids if len(name) < 10] == ["msg_1", "rs_1", "msg_2", "fc_1", "rs_2", "msg_3"]
    assert len(set(ids)) == len(ids)


async def test_a_command_s_output_is_one_text_with_a_header(conversation: Conversation) -> None:
    """exec_command reports chunk, time, exit code and size above the output, in one string."""
    (output,) = (item for item in conversation.requests[2].input if item["type"] == "function_call_output")
    assert set(output) == {"type", "id", "call_id", "output"}
    steady = re.sub(r"(?m)^(Chunk ID: ).+$|^(Wall time: )[\d.]+( seconds)$", r"\1\2*\3", output["output"])
    assert steady == (
        "Chunk ID: *\nWall time: * seconds\nProcess exited with code 0\nOriginal token count: 3\nOutput:\nanchored\n"
    )


async def test_turn_metadata_stands_in_a_header_and_in_the_body(conversation: Conversation) -> None:
    """The header and its copy in client_metadata are equal and name the agent and the kind of request."""
    for request in conversation.requests:
        assert request.body["client_metadata"]["x-codex-turn-metadata"] == request.headers["x-codex-turn-metadata"]
        assert (metadata(request)["agent_name"], metadata(request)["request_kind"]) == ("/root", "turn")


async def test_a_resume_respells_empty_reasoning_content(codex_at: CodexAt) -> None:
    """Reasoning streamed with an empty content list has no content in the same process and a null one after a resume."""
    thought = reasoning("SEALED") | {"content": []}
    command = call("exec_command", {"cmd": "true"}, call_id="call_true").items
    async with ScriptedProvider([Reply(items=(thought, *command)), say("done"), say("resumed")]) as provider:
        codex = codex_at(provider.url)
        await codex.exec("go")
        await codex.resume("on")
    spelled = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "SEALED"}
    echoes = [item for request in provider.requests for item in request.input if item["type"] == "reasoning"]
    assert echoes == [spelled, spelled | {"content": None}]


@pytest.mark.moves_prefix(reason="Codex compacts its own history")
async def test_a_compaction_on_request_names_itself(codex_at: CodexAt) -> None:
    """Codex's own compaction says so in its metadata, sends no tools, and moves to the next window."""
    async with ScriptedProvider([say("one"), say("SUMMARY"), say("two")]) as provider:
        codex = codex_at(provider.url)
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd))
            turns = [await server.turn(thread_id, "go"), await server.compact(thread_id), await server.turn(thread_id, "on")]
    assert [(turn.status, turn.error) for turn in turns] == [("completed", None)] * 3
    before, compaction, after = provider.requests
    assert [metadata(request)["request_kind"] for request in provider.requests] == ["turn", "compaction", "turn"]
    assert metadata(compaction)["compaction"] == {
        "trigger": "manual",
        "reason": "user_requested",
        "implementation": "responses",
        "phase": "standalone_turn",
        "strategy": "memento",
    }
    assert compaction.body["tools"] == []
    assert raw_items(compaction)[: len(before.input)] == raw_items(before)
    windows = [request.headers["x-codex-window-id"] for request in provider.requests]
    assert windows == [f"{thread_id}:0", f"{thread_id}:0", f"{thread_id}:1"]
    assert "SUMMARY" in json.dumps(after.input)


async def test_a_fork_is_another_thread_with_the_same_beginning(codex_at: CodexAt) -> None:
    """A fork before a turn has a new cache key and, ids aside, the history up to that turn."""
    async with ScriptedProvider([say("one"), say("two"), say("forked")]) as provider:
        codex = codex_at(provider.url)
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd))
            await server.turn(thread_id, "go")
            second = await server.turn(thread_id, "on")
            fork_id = await server.fork(thread_id, before_turn=second.id)
            await server.turn(fork_id, "elsewhere")
    _, trunk, branch = provider.requests
    assert [request.body["prompt_cache_key"] for request in provider.requests] == [thread_id, thread_id, fork_id]
    assert [echoed(item) for item in branch.input[:-1]] == [echoed(item) for item in trunk.input[:-1]]
    assert echoed(branch.input[-1]) == user("elsewhere")


async def test_a_revert_returns_to_the_shorter_history(codex_at: CodexAt) -> None:
    """A reverted turn is gone from the next request; what stood before it is sent byte for byte."""
    async with ScriptedProvider([say("one"), say("two"), say("again")]) as provider:
        codex = codex_at(provider.url)
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd))
            await server.turn(thread_id, "go")
            second = await server.turn(thread_id, "wrong")
            await server.revert(thread_id, before_turn=second.id)
            await server.turn(thread_id, "right")
    _, wrong, right = provider.requests
    assert raw_items(right)[:-1] == raw_items(wrong)[:-1]
    assert [echoed(request.input[-1]) for request in (wrong, right)] == [user("wrong"), user("right")]
    assert right.body["prompt_cache_key"] == thread_id
