"""Providers that compact by themselves: what they are asked, what comes back, who can read it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.doubles.model_server import ModelServer, streamed
from tests.llm.wires import CREDENTIAL, MESSAGES, RESPONSES, Wire, request_of

from threadkeep.errors import ModelError, ModelOverflow, ModelRejected, ModelUnavailable
from threadkeep.items import Item
from threadkeep.llm import RemoteCompaction, RemoteCompactor, name_issuer, open_model
from threadkeep.testing.model_checks import HttpReply, make_json_reply

pytestmark = pytest.mark.anyio

USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Ship it."}]}
SEALED = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA", "created_by": None}
COMPACTED = {
    "id": "resp_1",
    "object": "response.compaction",
    "created_at": 1,
    "output": [USER, SEALED],
    "usage": {"input_tokens": 900, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 800}},
}
BLOCK = {"type": "compaction", "content": "They ship it.", "signature": "sig", "tool_changes": []}
SUMMARISED = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [BLOCK],
    "stop_reason": "compaction",
    "usage": {"input_tokens": 100, "cache_read_input_tokens": 800, "output_tokens": 50},
}


async def compacted(wire: Wire, body: dict[str, Any], *replies: HttpReply) -> tuple[RemoteCompaction, ModelServer]:
    async with ModelServer(list(replies)) as server, wire.open(server.origin) as model:
        assert isinstance(model, RemoteCompactor)
        return await model.compact(request_of(wire.dialect, body)), server


async def failure(wire: Wire, *replies: HttpReply) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await compacted(wire, dict(wire.question), *replies)
    return caught.value


TRIGGER = {"type": "compaction_trigger"}
UNKNOWN = {"error": {"message": "Invalid value: 'compaction_trigger'.", "param": "input[1].type"}}


async def test_openai_is_sent_the_history_and_what_its_prefix_is_made_of() -> None:
    """What only shapes an answer stays behind; the items come back with their bytes, bound to their issuer."""
    stored = {"type": "reasoning", "id": "rs_1", "summary": []}
    kept = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAB"}
    turn = {
        "model": "gpt-other",
        "instructions": "Be brief.",
        "input": [USER, stored, kept],
        "tools": [{"type": "function", "name": "shell"}],
        "parallel_tool_calls": True,
        "prompt_cache_key": "thread-1",
        "reasoning": {"effort": "high"},
        "stream": True,
        "tool_choice": "auto",
        "metadata": {"a": "b"},
    }
    answer = {**COMPACTED, "object": "response", "status": "completed"}
    made, server = await compacted(RESPONSES, turn, make_json_reply(answer))
    received = server.requests[0]
    left_behind = ("stream", "tool_choice", "metadata")
    assert (received.method, received.path) == ("POST", "/v1/responses")
    assert received.headers["x-codex-beta-features"] == "remote_compaction_v2"
    assert received.body == {name: value for name, value in turn.items() if name not in left_behind} | {
        "model": "gpt-test",
        "input": [USER, kept, TRIGGER],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert made == RemoteCompaction(
        items=(Item(_as_sent(USER)), Item(_as_sent(SEALED))),
        issuer=name_issuer(f"{server.origin}/v1", credential=CREDENTIAL),
        input_tokens=900,
        output_tokens=50,
        cached_tokens=800,
    )


@pytest.mark.parametrize(
    "answer",
    [
        make_json_reply(UNKNOWN, status=400),
        make_json_reply({"error": {"message": "no such endpoint"}}, status=404),
        make_json_reply({"id": "resp_1", "object": "response", "status": "completed", "output": [USER]}),
    ],
    ids=["refused", "missing", "answered"],
)
async def test_openai_is_asked_at_its_own_address_where_the_trigger_is_unknown(answer: HttpReply) -> None:
    """The same history goes to `/responses/compact`; where that worked, it is asked so at once."""
    turn = {"input": [USER], "instructions": "Be brief.", "stream": True, "max_output_tokens": 4_000}
    async with ModelServer([answer, *([make_json_reply(COMPACTED)] * 2)]) as server, RESPONSES.open(server.origin) as model:
        assert isinstance(model, RemoteCompactor)
        first = await model.compact(request_of("responses", turn))
        second = await model.compact(request_of("responses", turn))
    paths = [request.path for request in server.requests]
    assert paths == ["/v1/responses", "/v1/responses/compact", "/v1/responses/compact"]
    assert server.requests[1].body == {"model": "gpt-test", "input": [USER], "instructions": "Be brief."}
    assert first == second
    assert (first.items[1:], first.input_tokens) == ((Item(_as_sent(SEALED)),), 900)


async def test_an_endpoint_that_refuses_is_not_taken_for_one_that_is_missing() -> None:
    """Any other refusal is the provider's word on this history."""
    assert isinstance(await failure(RESPONSES, make_json_reply({"error": {"message": "no"}}, status=400)), ModelRejected)


async def test_anthropic_is_told_what_to_keep() -> None:
    """Instructions that a strategy put into the request are sent."""
    own = {"type": "summarize", "instructions": "Keep the ports."}
    body = {"messages": [{"role": "user", "content": "Ship it."}], "compaction": own}
    _, server = await compacted(MESSAGES, body, make_json_reply(SUMMARISED))
    assert server.requests[0].body["compaction"] == own


async def test_anthropic_is_asked_to_summarise_the_history() -> None:
    """On demand, under its beta; what it refuses beside a compaction is left out, the rest is as a turn has it."""
    turn = {
        "model": "claude-other",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Ship it."}],
        "tools": [{"name": "shell", "input_schema": {}}],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high", "format": {"type": "json_schema"}},
        "context_management": {"edits": []},
        "stop_sequences": ["x"],
        "max_tokens": 64,
        "stream": True,
    }
    made, server = await compacted(MESSAGES, turn, make_json_reply(SUMMARISED))
    received = server.requests[0]
    assert received.headers["anthropic-beta"] == "compact-2026-09-04"
    assert received.path == "/v1/messages"
    assert received.body == {
        "model": "claude-test",
        "system": "Be brief.",
        "messages": turn["messages"],
        "tools": turn["tools"],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "max_tokens": 64,
        "compaction": {"type": "summarize"},
    }
    assert made == RemoteCompaction(
        items=(Item(b'{"role":"assistant","content":[' + _as_sent(BLOCK) + b"]}"),),
        issuer=name_issuer(server.origin, credential=CREDENTIAL),
        input_tokens=900,
        output_tokens=50,
        cached_tokens=800,
    )


@pytest.mark.parametrize(("first", "beta"), [(BLOCK, "compact-2026-09-04"), ({"type": "text", "text": '"compaction"'}, None)])
async def test_anthropic_is_told_of_a_compaction_in_the_history_of_a_question(first: dict[str, Any], beta: str | None) -> None:
    """What was compacted on demand is understood under that beta alone; other histories need none."""
    history = [{"role": "assistant", "content": [first]}, {"role": "user", "content": "And now?"}]
    async with ModelServer([streamed("messages", "ok")]) as server, MESSAGES.open(server.origin) as model:
        await model.ask(request_of("messages", {"messages": history}))
    assert server.requests[0].headers.get("anthropic-beta") == beta


async def test_anthropic_is_told_the_beta_of_a_turn_that_is_to_be_compacted_on_the_way() -> None:
    """Both betas where the history holds a compaction, too."""
    edits = {"context_management": {"edits": [{"type": "compact_20260112"}]}}
    plain, compacted = [{"role": "user", "content": "Go on."}], [{"role": "assistant", "content": [BLOCK]}]
    replies = [streamed("messages", "ok"), streamed("messages", "ok")]
    async with ModelServer(replies) as server, MESSAGES.open(server.origin) as model:
        await model.ask(request_of("messages", {"messages": plain, **edits}))
        await model.ask(request_of("messages", {"messages": [*compacted, *plain], **edits}))
    betas = [request.headers.get("anthropic-beta") for request in server.requests]
    assert betas == ["compact-2026-01-12", "compact-2026-09-04,compact-2026-01-12"]


async def test_anthropic_is_asked_to_drop_thinking_that_a_compaction_left_behind() -> None:
    """With thinking on, and not where it is off or the caller says what is to become of it."""
    own = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    asked = ({"type": "adaptive"}, own, {"type": "disabled"}, None)
    async with ModelServer([streamed("messages", "ok")] * 4) as server, MESSAGES.open(server.origin) as model:
        for thinking in asked:
            more = {} if thinking is None else {"thinking": thinking}
            await model.ask(request_of("messages", {"messages": [{"role": "user", "content": "Go on."}], **more}))
    sent = [request.body.get("thinking") for request in server.requests]
    assert sent == [
        {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
        own,
        {"type": "disabled"},
        None,
    ]
    betas = [request.headers.get("anthropic-beta") for request in server.requests]
    assert betas == ["thinking-binding-controls-2026-08-01"] * 2 + [None] * 2


def _as_sent(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("wire", [RESPONSES, MESSAGES], ids=lambda wire: wire.dialect)
async def test_a_choice_that_forces_no_tool_is_left_alone(wire: Wire) -> None:
    """Only what the provider refuses is taken away."""
    reply = make_json_reply(COMPACTED if wire is RESPONSES else SUMMARISED)
    body = {**wire.question, "tool_choice": {"type": "auto"}}
    _, server = await compacted(wire, body, reply)
    assert server.requests[0].body.get("tool_choice") == (None if wire is RESPONSES else {"type": "auto"})


@pytest.mark.parametrize("wire", [RESPONSES, MESSAGES], ids=lambda wire: wire.dialect)
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (make_json_reply({"error": {"message": "not with this key"}}, status=403), ModelRejected),
        (make_json_reply({"error": {"message": "prompt is too long"}}, status=400), ModelOverflow),
        (make_json_reply({"error": {"message": "busy"}}, status=529), ModelUnavailable),
        (make_json_reply({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}), ModelUnavailable),
        (HttpReply(chunks=(b'{"output": [',), cut=True), ModelUnavailable),
        (HttpReply(chunks=(b"not json",)), ModelUnavailable),
    ],
)
async def test_a_compaction_fails_like_a_question(wire: Wire, reply: HttpReply, kind: type[ModelError]) -> None:
    """Every class of error keeps its meaning."""
    assert isinstance(await failure(wire, reply), kind)


async def test_a_compaction_without_a_compaction_item_is_none() -> None:
    """A list of messages alone would be a history cut short."""
    assert isinstance(await failure(RESPONSES, *[make_json_reply({**COMPACTED, "output": [USER]})] * 2), ModelRejected)
    assert isinstance(await failure(MESSAGES, make_json_reply({**SUMMARISED, "content": []})), ModelRejected)


async def test_a_compaction_that_came_out_empty_may_be_asked_for_again() -> None:
    """The provider says so with a block without content."""
    empty = {**SUMMARISED, "content": [{"type": "compaction", "content": None}]}
    assert isinstance(await failure(MESSAGES, make_json_reply(empty)), ModelUnavailable)


def test_an_issuer_tells_accounts_and_addresses_apart_and_names_no_credential() -> None:
    """Same address and credential, same issuer; anything else, another one."""
    first = name_issuer("https://api.example/v1", credential=CREDENTIAL)
    assert first == name_issuer("https://api.example/v1", credential=CREDENTIAL)
    assert first.startswith("https://api.example/v1#")
    assert CREDENTIAL not in first
    others = {name_issuer("https://api.example/v1", credential="k2"), name_issuer("https://b.example/v1", credential=CREDENTIAL)}
    assert first.partition("#")[2] not in {other.partition("#")[2] for other in others}


def test_a_server_at_a_url_is_not_asked_to_compact() -> None:
    """Chat Completions has no such thing."""
    assert not isinstance(open_model("m@http://127.0.0.1:1", environ={}), RemoteCompactor)


@pytest.mark.parametrize("wire", [RESPONSES, MESSAGES], ids=lambda wire: wire.dialect)
async def test_a_credential_that_a_provider_repeats_is_in_no_error_of_a_compaction(wire: Wire) -> None:
    """Also where the error comes with a status that says all is well."""
    complaint = {"type": "error", "error": {"type": "api_error", "message": f"bad key Bearer {CREDENTIAL}"}}
    error = await failure(wire, make_json_reply(complaint))
    assert "bad key Bearer [credential]" in str(error)
    assert CREDENTIAL not in str(error)
