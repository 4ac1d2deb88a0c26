"""What a request says about itself: who sends it, what it calls the conversation, whose account answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from threadkeep.dialects import DEFAULT, Request
from threadkeep.gateway.conversation.hints import ROOT_AGENT, Hints, digest_issuer, read_hints

KEY = b"tenant"


def hints(headers: dict[str, str] | None = None, **fields: Any) -> Hints:
    request = Request(fields={name: json.dumps(value).encode() for name, value in fields.items()}, head=(), items=())
    target = DEFAULT.api.read_target(request.fields, path="/responses", query="")
    return read_hints(headers or {}, request, target, dialect=DEFAULT, upstream="https://a.test", key=KEY)


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({"thread-id": "x", "session-id": "x"}, {"prompt_cache_key": "x"}),
        ({"x-claude-code-session-id": "x"}, {}),
        ({"x-session-id": "x", "x-session-affinity": "x"}, {"prompt_cache_key": "x"}),
        ({"session_id": "x"}, {"prompt_cache_key": "x"}),
        ({}, {"prompt_cache_key": "x"}),
        ({}, {"promptCacheKey": "x"}),
        ({}, {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "x"})}}),
    ],
)
def test_every_client_names_its_conversation_somewhere(headers: dict[str, str], fields: dict[str, Any]) -> None:
    """The same name is the same digest, another name another, and the name itself is not in it."""
    told = hints(headers, **fields).session
    assert told == hints(headers, **fields).session
    other = json.loads(json.dumps([headers, fields]).replace('"x"', '"y"').replace('\\"x\\"', '\\"y\\"'))
    assert hints(other[0], **other[1]).session not in ("", told)
    assert len(told) == 16


def test_no_name_is_no_session() -> None:
    """A client that says nothing has none; odd values are none."""
    assert hints().session == ""
    assert hints(prompt_cache_key=7, metadata={"user_id": "not json"}).session == ""


@pytest.mark.parametrize(
    ("headers", "agent", "client"),
    [
        ({}, "", ""),
        ({"x-session-id": "s"}, "", ""),
        ({"x-session-id": "s", "x-parent-session-id": "p"}, "s", ""),
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, "a", "claude-code"),
        ({"user-agent": "claude-cli/2.1.325 (external, sdk-cli)"}, "", "claude-code"),
        ({"x-codex-turn-metadata": json.dumps({"agent_name": ROOT_AGENT})}, "", "codex"),
        ({"x-codex-turn-metadata": json.dumps({"agent_name": f"{ROOT_AGENT}/a"})}, f"{ROOT_AGENT}/a", "codex"),
    ],
)
def test_sub_agents_and_clients_are_told_by_their_headers(headers: dict[str, str], agent: str, client: str) -> None:
    """Where a client marks them."""
    told = hints(headers)
    assert (told.agent, told.client) == (agent, client)


def test_an_account_is_its_provider_and_its_lasting_key() -> None:
    """Another provider, key or organisation is another account; a token that is renewed is not."""

    def issuer(upstream: str = "https://a.test", **headers: str) -> str:
        return digest_issuer({name.replace("_", "-"): value for name, value in headers.items()}, upstream=upstream, key=KEY)

    distinct = [
        issuer(),
        issuer("https://b.test"),
        issuer(authorization="Bearer sk-1"),
        issuer(authorization="Bearer sk-2"),
        issuer(x_api_key="sk-ant-api-1"),
        issuer(x_api_key="sk-ant-api-2"),
        issuer(openai_organization="org"),
        issuer(chatgpt_account_id="acct"),
    ]
    assert len(set(distinct)) == len(distinct)
    assert issuer(authorization="Bearer eyJ.1") == issuer(authorization="Bearer eyJ.2") == issuer()
    assert issuer(authorization="Bearer sk-ant-oat-1") == issuer(authorization="Bearer sk-ant-oat-2")
    assert digest_issuer({}, upstream="https://a.test", key=b"another") != issuer()
