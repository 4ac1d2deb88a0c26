"""The same work through the Agents SDK's own sessions and through threadkeep's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import pytest
from agents import OpenAIResponsesCompactionSession, Runner, SQLiteSession
from agents.memory import Session
from agents.memory.openai_responses_compaction_session import default_should_trigger_compaction
from agents.tool_context import ToolContext
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from openai import AsyncOpenAI
from tests.adapters.agents_runs import agent_on, user, worked
from tests.adapters.long_session import NEEDLE, RULE, SECRET, asked, settings, turns
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply
from tests.prefixes import stable_prefix

from threadkeep import Config, Threadkeep
from threadkeep.adapters.openai_agents import ThreadkeepSession

__all__ = ["stable_prefix"]

# Every process that collects these tests imports the SDK first, which takes a second or more.
pytestmark = pytest.mark.slow

PIERS = 9


def compacting_turns() -> Iterator[Reply]:
    """Return the script of a provider that also compacts: the SDK's own session asks it to after every fourth turn."""
    replies = list(turns(1, PIERS))
    for pier in range(1, PIERS + 1):
        yield from replies[2 * pier - 2 : 2 * pier]
        if pier % 4 == 0:
            said = [{"role": "user", "content": asked(each)} for each in range(1, pier + 1)]
            sealed = {"type": "compaction", "id": f"cmp_{pier}", "encrypted_content": f"sealed-{pier}"}
            usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
            created = {"id": f"resp_c{pier}", "object": "response.compaction", "created_at": 1}
            yield Reply(body={**created, "output": [*said, sealed], "usage": usage})


@asynccontextmanager
async def compacting_session(provider: ScriptedProvider, kept_in: Session) -> AsyncIterator[OpenAIResponsesCompactionSession]:
    async with AsyncOpenAI(base_url=provider.url, api_key=SECRET, max_retries=0) as client:
        yield OpenAIResponsesCompactionSession(kept_in.session_id, kept_in, client=client, model="gpt-5.4")


async def led_by_the_sdk(kept_in: Session) -> tuple[list[list[Any]], list[Any]]:
    """Return what the provider was asked through the SDK's compacting session, and what is in that session at the end."""
    script = list(compacting_turns())
    async with (
        ScriptedProvider(script) as provider,
        compacting_session(provider, kept_in) as session,
        agent_on(provider) as agent,
    ):
        for pier in range(1, PIERS + 1):
            await Runner.run(agent, asked(pier), session=session)
        return [received.input for received in provider.requests], await session.get_items()


@pytest.mark.anyio
async def test_parity_with_the_sdks_own_compacting_session(tmp_path: Path) -> None:
    """The same work, and the same rule for when: ours too is smaller, keeps every word a person said, and asks nobody."""
    with closing(SQLiteSession("harbour")) as kept_in:
        _, theirs = await led_by_the_sdk(kept_in)
    session = ThreadkeepSession(
        "harbour", Config(store=str(tmp_path / "agent.db")), should_trigger_compaction=default_should_trigger_compaction
    )
    async with ScriptedProvider(list(turns(1, PIERS)), enforcing=True, counting=True) as provider, agent_on(provider) as agent:
        for pier in range(1, PIERS + 1):
            await Runner.run(agent, asked(pier), session=session)
    ours = await session.get_items()
    everything = 4 * PIERS
    assert len(theirs) < everything
    assert len(ours) < everything
    for pier in range(1, PIERS + 1):
        assert asked(pier).removeprefix(RULE).strip() in str(theirs)
        assert asked(pier).removeprefix(RULE).strip() in str(ours)
    assert RULE in str(ours)
    assert NEEDLE not in str(theirs)
    recalled = await session.recall_tool().on_invoke_tool(
        cast("Any", tool_context()), '{"query": "serial of the bollard of pier 1"}'
    )
    assert NEEDLE in str(recalled)


added_items = st.lists(
    st.builds(user, st.sampled_from(["a", "b", "ü ☂", ""])) | st.integers(1, 3).map(lambda pier: worked(pier)[3]), max_size=3
)
steps = st.lists(
    st.tuples(st.just("add"), added_items)
    | st.tuples(st.just("pop"), st.none())
    | st.tuples(st.just("clear"), st.none())
    | st.tuples(st.just("get"), st.none() | st.integers(0, 4)),
    max_size=10,
)


@given(steps)
@examples(max_examples=25)
def test_any_order_of_calls_gives_what_the_sdks_own_session_gives(
    tmp_path_factory: pytest.TempPathFactory, order: list[tuple[str, Any]]
) -> None:
    """Adding, popping, clearing and reading: the same answers as from SQLiteSession, step by step."""

    async def told(session: Session) -> list[Any]:
        answers: list[Any] = []
        for name, given_with in order:
            match name:
                case "add":
                    await session.add_items(given_with)
                case "pop":
                    answers.append(await session.pop_item())
                case "clear":
                    await session.clear_session()
                case _:
                    answers.append(await session.get_items(given_with))
        return [*answers, await session.get_items()]

    async def both() -> tuple[list[Any], list[Any]]:
        config = settings(tmp_path_factory.mktemp("order") / "agent.db")
        async with Threadkeep(config) as tk:
            with closing(SQLiteSession("order")) as session:
                return await told(ThreadkeepSession("order", tk)), await told(session)

    ours, theirs = asyncio.run(both())
    assert ours == theirs


def tool_context() -> ToolContext[None]:
    return ToolContext(context=None, tool_name="recall", tool_call_id="call_r", tool_arguments="{}")
