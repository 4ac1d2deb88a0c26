"""The enforcing provider: what a real one refuses on each wire, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say

pytestmark = pytest.mark.anyio

GO = {"role": "user", "content": "go"}
ON = {"role": "user", "content": "on"}
SAID = {"role": "assistant", "content": "done"}
CALLED = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}
OUTPUT = {"role": "tool", "tool_call_id": "c1", "content": "seen"}
USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
RESULT_BLOCK = {"type": "tool_result", "tool_use_id": "c1", "content": "seen"}
RESULT = {"role": "user", "content": [RESULT_BLOCK]}
TEXT = {"type": "text", "text": "and"}
MARKED = TEXT | {"cache_control": {"type": "ephemeral"}}
SYSTEM = {"role": "system", "content": "the world"}

CHAT_REFUSED: dict[str, tuple[list[Any], str]] = {
    "an output without its call": ([GO, OUTPUT], "messages[1]: role tool must follow the call 'c1'"),
    "a call without its output": ([GO, CALLED, ON], "messages[2]: call 'c1' must be followed by its tool message"),
    "a call at the end": ([GO, CALLED], "messages: call 'c1' has no tool message"),
}
MESSAGES_REFUSED: dict[str, tuple[list[Any], str]] = {
    "a result without its use": ([GO, RESULT], "messages.1: tool_result 'c1' has no tool_use in the message before"),
    "a use without its result": ([GO, USED, ON], "messages.2: tool_use 'c1' has no tool_result right after it"),
    "a use at the end": ([GO, USED], "messages: tool_use 'c1' has no tool_result"),
    "text before a result": (
        [GO, USED, {"role": "user", "content": [TEXT, RESULT_BLOCK]}],
        "messages.2: tool_result blocks must come first",
    ),
    "the model first": ([SAID, GO], "messages: first message must use the user role"),
    "an empty text": ([GO, SAID, {"role": "user", "content": ""}], "messages.2: content and text blocks must be non-empty"),
    "five markers": (
        [{"role": "user", "content": [MARKED] * 5}],
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
}


async def ask(provider: ScriptedProvider, path: str, body: Any, *, beta: str = "") -> tuple[int, Any]:
    headers = {"anthropic-beta": beta} if beta else {}
    async with aiohttp.ClientSession() as session, session.post(f"{provider.url}{path}", json=body, headers=headers) as response:
        return response.status, json.loads(await response.read())


async def refused(path: str, messages: list[Any], *, alternating: bool = False) -> str | None:
    async with ScriptedProvider([say("fine")], enforcing=True, alternating=alternating) as provider:
        _, answer = await ask(provider, path, {"model": "m", "messages": messages})
        if "error" in answer:
            await ask(provider, path, {"model": "m", "messages": [GO]})
    fault: str | None = answer.get("error", {}).get("message")
    return fault


@pytest.mark.parametrize("name", CHAT_REFUSED)
async def test_chat_refuses_broken_pairs(name: str) -> None:
    """Calls and tool messages stand together."""
    messages, fault = CHAT_REFUSED[name]
    assert await refused("/chat/completions", messages) == fault


@pytest.mark.parametrize("name", MESSAGES_REFUSED)
async def test_messages_refuse_what_anthropic_refuses(name: str) -> None:
    """Pairs, the order of results, the first role, empty text, and markers."""
    messages, fault = MESSAGES_REFUSED[name]
    assert await refused("/messages", messages) == fault


@pytest.mark.parametrize(
    ("path", "messages"),
    [
        ("/chat/completions", [GO, CALLED, OUTPUT, SAID, ON]),
        ("/chat/completions", [GO, ON]),
        ("/messages", [GO, USED, RESULT, SAID, ON]),
        ("/messages", [GO, SYSTEM, USED, SYSTEM, RESULT]),
        ("/messages", [{"role": "user", "content": [MARKED] * 4}]),
        ("/messages", [GO, {"role": "system", "content": [], "output_config": {"effort": "medium"}}]),
        ("/messages", [GO, USED, {"role": "user", "content": [RESULT_BLOCK, TEXT]}]),
    ],
)
async def test_what_is_whole_is_accepted(path: str, messages: list[Any]) -> None:
    """Nothing is refused that a real provider takes."""
    assert await refused(path, messages) is None


@pytest.mark.parametrize(
    ("path", "messages", "fault"),
    [
        ("/chat/completions", [GO, ON], "item 1: roles must alternate, found user twice in a row"),
        ("/messages", [GO, ON], "item 1: roles must alternate, found user twice in a row"),
        ("/messages", [GO, SYSTEM, ON], None),
        ("/messages", [GO, SAID, SAID, ON], "item 2: roles must alternate, found assistant twice in a row"),
        ("/chat/completions", [SYSTEM, GO, CALLED, OUTPUT, SAID, ON], None),
    ],
)
async def test_a_strict_template_wants_roles_to_alternate(path: str, messages: list[Any], fault: str | None) -> None:
    """`alternating` adds the rule of templates that know one turn of each side at a time."""
    assert await refused(path, messages, alternating=True) == fault


async def test_encrypted_content_is_its_issuer_s_own() -> None:
    """What this provider sealed comes back; what another sealed is refused by name."""
    async with ScriptedProvider([say("one", encrypted_reasoning="OURS"), say("two")], enforcing=True) as provider:
        _, first = await ask(provider, "/responses", {"input": "go"})
        foreign = [GO, first["output"][0] | {"encrypted_content": "THEIRS"}, first["output"][1], ON]
        status, answer = await ask(provider, "/responses", {"input": foreign})
        accepted, _ = await ask(provider, "/responses", {"input": [GO, *first["output"], ON]})
    assert (status, answer["error"]["code"], accepted) == (400, "invalid_encrypted_content", 200)


async def test_reasoning_that_nobody_stored_is_not_found() -> None:
    """Under `store: false` an id alone names nothing; where the provider stores, it does."""
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    async with ScriptedProvider([say("fine")], enforcing=True) as provider:
        status, refusal = await ask(provider, "/responses", {"input": [GO, bare, answer, ON], "store": False})
        accepted, _ = await ask(provider, "/responses", {"input": [GO, bare, answer, ON]})
    assert (status, refusal["error"]["message"], accepted) == (
        400,
        "input[1]: item with id 'rs_1' not found; nothing is stored",
        200,
    )


def thinking(messages: list[Any], *, model: str = "claude-opus-5-5", **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": messages, "thinking": {"type": "enabled"}, **fields}


async def thought(provider: ScriptedProvider, **fields: Any) -> Any:
    _, answer = await ask(provider, "/messages", thinking([GO], **fields))
    return {"role": "assistant", "content": answer["content"]}


BOUND = "messages.1: Invalid signature: the block is bound to a different conversation"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, None),
        ({"messages": [GO | {"content": [MARKED | {"text": "go"}]}]}, None),
        ({"messages": [GO | {"content": "gone"}]}, BOUND),
        ({"system": "another world"}, BOUND),
        ({"tools": [{"name": "look"}]}, BOUND),
        ({"tools": [{"name": "look", "defer_loading": True}]}, None),
        ({"messages": [GO | {"content": "gone"}], "model": "claude-sonnet-4-5"}, None),
    ],
)
async def test_thinking_is_bound_to_everything_before_it(fields: dict[str, Any], fault: str | None) -> None:
    """A changed system, tool or earlier message is refused on models that preserve thinking; markers and spelling are free."""
    async with ScriptedProvider([say("one", encrypted_reasoning="SEALED"), say("two")], enforcing=True) as provider:
        answer = await thought(provider)
        before = fields.pop("messages", [GO])
        status, second = await ask(provider, "/messages", thinking([*before, answer, ON], **fields))
        if status != 200:
            await ask(provider, "/messages", thinking([GO, answer, ON]))
    assert second.get("error", {}).get("message") == fault


async def test_blocks_may_be_dropped_on_request() -> None:
    """With the behaviour and its beta a changed prefix drops the block; with one of them it is refused."""
    asked = {"type": "enabled", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    async with ScriptedProvider([say("one", encrypted_reasoning="SEALED"), say("two")], enforcing=True) as provider:
        answer = await thought(provider)
        moved = thinking([ON, answer, GO]) | {"thinking": asked}
        statuses = [
            (await ask(provider, "/messages", moved, beta=beta))[0] for beta in ("", "thinking-binding-controls-2026-08-01")
        ]
    assert statuses == [400, 200]


async def test_a_foreign_signature_is_refused_on_every_model() -> None:
    """A signature this provider never gave is invalid whatever it is bound to."""
    block = {"type": "thinking", "thinking": "hm", "signature": "sig_elsewhere"}
    foreign = {"role": "assistant", "content": [block, {"type": "text", "text": "done"}]}
    async with ScriptedProvider([], enforcing=True) as provider:
        _, answer = await ask(provider, "/messages", thinking([GO, foreign, ON], model="claude-sonnet-4-5"))
    assert answer["error"]["message"] == "messages.1: Invalid signature in thinking block"


async def test_an_open_call_keeps_its_thinking() -> None:
    """In a running tool loop the thinking that led to the call must be there; once the turn is over it may go."""
    async with ScriptedProvider(
        [call("look", {}, call_id="c1", encrypted_reasoning="SEALED"), say("x")], enforcing=True
    ) as provider:
        used = await thought(provider)
        bare = used | {"content": used["content"][1:]}
        status, answer = await ask(provider, "/messages", thinking([GO, bare, RESULT]))
        over, _ = await ask(provider, "/messages", thinking([GO, bare, RESULT, SAID, ON]))
    assert (status, answer["error"]["message"], over) == (400, "messages.1: Expected `thinking`, but found `tool_use`", 200)
