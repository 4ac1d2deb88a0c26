"""SDK calls that leave the history with the provider, or have the provider compact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, SQLiteSession
from agents.memory.openai_responses_compaction_session import OpenAIResponsesCompactionSession
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from tests.clients.made_up import told
from tests.clients.sdk_talks import SECONDS
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, say
from tests.drivers.gateway_process import gateway_process

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

COMPACTED: dict[str, Any] = {
    "id": "resp_c",
    "object": "response.compaction",
    "created_at": 1_700_000_000,
    "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "SEALED"}],
    "usage": {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    },
}

Use = Callable[[AsyncOpenAI, Path], Awaitable[list[Any]]]


async def previous_response(client: AsyncOpenAI, folder: Path) -> list[Any]:
    first = await client.responses.create(model="gpt-5.1", input="one")
    second = await client.responses.create(model="gpt-5.1", input="two", previous_response_id=first.id)
    return [first.output_text, second.output_text]


async def conversation(client: AsyncOpenAI, folder: Path) -> list[Any]:
    made = await client.conversations.create(items=[{"type": "message", "role": "developer", "content": "Never push."}])
    first = await client.responses.create(model="gpt-5.1", input="one", conversation=made.id)
    async with client.responses.stream(model="gpt-5.1", input="two", conversation={"id": made.id}) as second:
        return [first.output_text, (await second.get_final_response()).output_text]


async def compact_with_history(client: AsyncOpenAI, folder: Path) -> list[Any]:
    history: Any = [{"role": "user", "content": "one"}]
    compacted = await client.responses.compact(model="gpt-5.1", input=history)
    kept: Any = [item.model_dump(exclude_none=True) for item in compacted.output]
    answer = await client.responses.create(model="gpt-5.1", input=[*kept, {"role": "user", "content": "two"}], store=False)
    return [kept, answer.output_text]


async def compaction_session(client: AsyncOpenAI, folder: Path) -> list[Any]:
    model = OpenAIResponsesModel("gpt-5.1", client)
    agent = Agent(name="keeper", model=model)
    underlying = SQLiteSession("s", folder / "session.db")
    session = OpenAIResponsesCompactionSession(
        session_id="s",
        underlying_session=underlying,
        client=client,
        model="gpt-5.1",
        should_trigger_compaction=lambda context: len(context["compaction_candidate_items"]) >= 1,
    )
    runs = [
        await Runner.run(agent, text, session=session, run_config=RunConfig(tracing_disabled=True)) for text in ("one", "two")
    ]
    underlying.close()
    return [run.final_output for run in runs]


USES: dict[str, tuple[Use, list[Reply]]] = {
    "compact": (compact_with_history, [Reply(body=COMPACTED), say("two")]),
}
NAMED: dict[str, tuple[Use, list[Reply]]] = {
    "previous response": (previous_response, [say("one"), say("two")]),
    "conversation": (conversation, [say("one"), say("two")]),
    "compaction session": (compaction_session, [say("one"), Reply(body=COMPACTED), say("two"), Reply(body=COMPACTED)]),
}


@pytest.mark.moves_prefix(reason="a session that had its history compacted goes on from what came back")
@pytest.mark.parametrize("name", NAMED)
async def test_an_answer_that_is_named_is_sent_with_all_before_it(name: str, tmp_path: Path) -> None:
    """The provider needs to keep nothing; each client gets what it gets from one that keeps everything."""
    use, script = NAMED[name]
    async with (
        ScriptedProvider(script, enforcing=True, issued=["SEALED"]) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
        AsyncOpenAI(base_url=gateway.base_url, api_key="sk-mock", max_retries=0, timeout=SECONDS) as client,
    ):
        assert await use(client, tmp_path) == ["one", "two"]
    assert not any({"previous_response_id", "conversation"} & set(request.body) for request in provider.requests)
    assert [text in str(provider.requests[1].input) for text in ("one", "two")] == [True, name != "compaction session"]
    assert ["Never push." in str(request.input) for request in provider.requests[:2]] == [name == "conversation"] * 2


@pytest.mark.moves_prefix(reason="the history is the provider's, and what a client sends is only what is new")
@pytest.mark.parametrize("name", USES)
async def test_state_held_by_the_provider_passes_through(name: str, tmp_path: Path) -> None:
    """A compaction of a whole history arrives as a run without the gateway sends it."""
    use, script = USES[name]

    async def used(base_url: str, folder: Path) -> list[Any]:
        folder.mkdir()
        async with AsyncOpenAI(base_url=base_url, api_key="sk-mock", max_retries=0, timeout=SECONDS) as client:
            return await use(client, folder)

    async with ScriptedProvider(script) as direct:
        expected = await used(direct.url, tmp_path / "direct")
    async with (
        ScriptedProvider(script) as through,
        gateway_process(tmp_path / "threadkeep.db", upstream=through.url) as gateway,
    ):
        relayed = await used(gateway.base_url, tmp_path / "through")
    assert relayed == expected
    assert told(through.requests) == told(direct.requests)


async def test_tokens_are_counted_by_the_provider(tmp_path: Path) -> None:
    """`count_tokens` of the Anthropic SDK passes through, and is no part of a conversation."""
    async with (
        ScriptedProvider([]) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        url = gateway.base_url.removesuffix("/v1")
        async with AsyncAnthropic(base_url=url, api_key="sk-ant-mock", max_retries=0, timeout=SECONDS) as client:
            counted = await client.messages.count_tokens(
                model="claude-sonnet-4-5", messages=[{"role": "user", "content": "how many?"}]
            )
    (asked,) = provider.side_requests
    assert (counted.input_tokens, asked.path) == (len(asked.raw) // 4, "/v1/messages/count_tokens")


async def test_a_list_of_models_is_the_provider_s(tmp_path: Path) -> None:
    """What is no conversation goes to the provider and back."""
    async with (
        ScriptedProvider([]) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
        AsyncOpenAI(base_url=gateway.base_url, api_key="sk-mock", max_retries=0, timeout=SECONDS) as client,
    ):
        models = await client.models.list()
    assert models.data == []
