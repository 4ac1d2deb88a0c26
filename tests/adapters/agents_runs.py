"""The Agents SDK's own runner, led through the harbour's session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from agents.items import TResponseInputItem
from openai import AsyncOpenAI
from tests.adapters.long_session import SECRET, SYSTEM, asked, surveyed
from tests.doubles.provider import ScriptedProvider

from threadkeep.adapters.openai_agents import ThreadkeepSession
from threadkeep.store import Record, RecordKind

set_tracing_disabled(disabled=True)


@function_tool
def survey(pier: int) -> str:
    """Survey a pier."""
    return surveyed(pier)


@asynccontextmanager
async def agent_on(provider: ScriptedProvider, session: ThreadkeepSession | None = None) -> AsyncIterator[Agent[Any]]:
    async with AsyncOpenAI(base_url=provider.url, api_key=SECRET, max_retries=0) as client:
        yield Agent(
            name="Harbour",
            instructions=SYSTEM,
            model=OpenAIResponsesModel("gpt-5.4", client),
            model_settings=ModelSettings(store=False),
            tools=[survey, *([session.recall_tool()] if session else [])],
        )


async def lead(provider: ScriptedProvider, session: ThreadkeepSession, piers: range) -> None:
    async with agent_on(provider, session) as agent:
        for pier in piers:
            await Runner.run(agent, asked(pier), session=session)


def item(value: dict[str, Any]) -> TResponseInputItem:
    return cast("TResponseInputItem", value)


def user(text: str) -> TResponseInputItem:
    return item({"role": "user", "content": text})


def worked(pier: int) -> list[TResponseInputItem]:
    """Return what a turn leaves in a session."""
    made = {"type": "function_call", "call_id": f"call_{pier}", "name": "survey", "arguments": f'{{"pier":{pier}}}'}
    returned = {"type": "function_call_output", "call_id": f"call_{pier}", "output": surveyed(pier)}
    return [user(asked(pier)), item(made), item(returned), item({"role": "assistant", "content": f"Pier {pier} is surveyed."})]


def checkpoints_of(records: list[Record]) -> int:
    return sum(record.kind is RecordKind.CHECKPOINT for record in records)
