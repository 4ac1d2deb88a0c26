"""Conversations led through the Python SDKs, each with a tool that really runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from tests.clients.talks import Talk, Unable
from tests.doubles.script import JsonObject

set_tracing_disabled(disabled=True)

TOOL = "run"
SECONDS = 30.0
SYSTEM = "You keep a small project in order."
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}


def run_command(command: str) -> str:
    """Run a shell command and return what it printed."""
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout


Turn = Callable[[list[JsonObject]], Awaitable[tuple[str, list[JsonObject]]]]


@dataclass(slots=True)
class HistoryTalk:
    """A conversation whose history the caller keeps: `take` is shown it and returns the answer and what it adds."""

    take: Turn
    history: list[JsonObject] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)

    async def say(self, text: str) -> str | None:
        self.begins.append(len(self.history))
        self.history.append({"role": "user", "content": text})
        answer, added = await self.take(self.history)
        self.history += added
        return answer

    async def fork(self, *, before: int | None = None) -> Talk:
        end = len(self.history) if before is None else self.begins[before - 1]
        return HistoryTalk(self.take, history=self.history[:end])

    async def revert(self, *, to: int) -> None:
        del self.history[self.begins[to - 1] :]
        del self.begins[to - 1 :]

    async def compact(self) -> None:
        raise Unable("an SDK compacts nothing by itself")


def _taken_up(take: Turn, left: Talk | None) -> Talk:
    """Return a conversation: a new one, or the history another client object has kept."""
    return HistoryTalk(take, left.history, left.begins) if isinstance(left, HistoryTalk) else HistoryTalk(take)


def openai_responses(folder: Path, base_url: str, left: Talk | None = None) -> AbstractAsyncContextManager[Talk]:
    """The OpenAI SDK without server-held state: history, reasoning and calls are handed back as it returned them."""
    tool = {"type": "function", "name": TOOL, "description": "Run a command.", "parameters": PARAMETERS, "strict": True}

    async def take(client: AsyncOpenAI, history: list[JsonObject]) -> tuple[str, list[JsonObject]]:
        added: list[JsonObject] = []
        while True:
            response: Any = await client.responses.create(
                model="gpt-5.1",
                instructions=SYSTEM,
                input=[*history, *added],  # type: ignore[list-item]  # a plain dict, as every example of the SDK has it
                tools=[tool],  # type: ignore[list-item]
                store=False,
                include=["reasoning.encrypted_content"],
                prompt_cache_key="my-conversation",
            )
            added += [item.model_dump(exclude_none=True) for item in response.output]
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text, added
            for called in calls:
                printed = run_command(**json.loads(called.arguments))
                added.append({"type": "function_call_output", "call_id": called.call_id, "output": printed})

    return _openai(base_url, take, left)


def openai_chat(folder: Path, base_url: str, left: Talk | None = None) -> AbstractAsyncContextManager[Talk]:
    """The OpenAI SDK on Chat Completions, streaming, with a history that begins with a system message."""
    tool = {"type": "function", "function": {"name": TOOL, "description": "Run a command.", "parameters": PARAMETERS}}

    async def take(client: AsyncOpenAI, history: list[JsonObject]) -> tuple[str, list[JsonObject]]:
        added: list[JsonObject] = []
        while True:
            messages: Any = [{"role": "system", "content": SYSTEM}, *history, *added]
            tools: Any = [tool]
            async with client.chat.completions.stream(model="local-model", messages=messages, tools=tools) as stream:
                completion = await stream.get_final_completion()
            said = completion.choices[0].message
            calls = said.tool_calls or []
            plain = [
                {
                    "id": called.id,
                    "type": "function",
                    "function": {"name": called.function.name, "arguments": called.function.arguments},
                }
                for called in calls
            ]
            added.append({"role": "assistant", "content": said.content, **({"tool_calls": plain} if plain else {})})
            if not calls:
                return said.content or "", added
            for called in calls:
                printed = run_command(**json.loads(called.function.arguments))
                added.append({"role": "tool", "tool_call_id": called.id, "content": printed})

    return _openai(base_url, take, left)


@asynccontextmanager
async def _openai(
    base_url: str,
    take: Callable[[AsyncOpenAI, list[JsonObject]], Awaitable[tuple[str, list[JsonObject]]]],
    left: Talk | None,
) -> AsyncIterator[Talk]:
    async with AsyncOpenAI(base_url=base_url, api_key="sk-mock", max_retries=0, timeout=SECONDS) as client:
        yield _taken_up(lambda history: take(client, history), left)


@asynccontextmanager
async def anthropic_messages(folder: Path, base_url: str, left: Talk | None = None) -> AsyncIterator[Talk]:
    """The Anthropic SDK, streaming and thinking, on a model that binds thinking to what stands before it."""
    tool: Any = {"name": TOOL, "description": "Run a command.", "input_schema": PARAMETERS}
    url = base_url.removesuffix("/v1")
    async with AsyncAnthropic(base_url=url, api_key="sk-ant-mock", max_retries=0, timeout=SECONDS) as client:

        async def take(history: list[JsonObject]) -> tuple[str, list[JsonObject]]:
            added: list[JsonObject] = []
            while True:
                messages: Any = [*history, *added]
                async with client.messages.stream(
                    model="claude-opus-5-5",
                    max_tokens=4_000,
                    system=SYSTEM,
                    tools=[tool],
                    messages=messages,
                    thinking={"type": "enabled", "budget_tokens": 2_000},
                ) as stream:
                    message = await stream.get_final_message()
                added.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]})
                uses = [block for block in message.content if block.type == "tool_use"]
                if not uses:
                    return "".join(block.text for block in message.content if block.type == "text"), added
                results = [
                    {"type": "tool_result", "tool_use_id": used.id, "content": run_command(str(used.input["command"]))}
                    for used in uses
                ]
                added.append({"role": "user", "content": results})

        yield _taken_up(take, left)


@function_tool(name_override=TOOL)
def run_tool(command: str) -> str:
    """Run a command."""
    return run_command(command)


def agents_responses(folder: Path, base_url: str, left: Talk | None = None) -> AbstractAsyncContextManager[Talk]:
    """The Agents SDK on the Responses API; its runner makes the calls and keeps the items."""
    return _agents(base_url, lambda client: OpenAIResponsesModel("gpt-5.1", client), left)


def agents_chat(folder: Path, base_url: str, left: Talk | None = None) -> AbstractAsyncContextManager[Talk]:
    """The Agents SDK on Chat Completions."""
    return _agents(base_url, lambda client: OpenAIChatCompletionsModel("local-model", client), left)


@asynccontextmanager
async def _agents(base_url: str, model: Callable[[AsyncOpenAI], Any], left: Talk | None) -> AsyncIterator[Talk]:
    async with AsyncOpenAI(base_url=base_url, api_key="sk-mock", max_retries=0, timeout=SECONDS) as client:
        settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
        agent = Agent(name="keeper", instructions=SYSTEM, model=model(client), tools=[run_tool], model_settings=settings)

        async def take(history: list[JsonObject]) -> tuple[str, list[JsonObject]]:
            given: Any = list(history)
            result = await Runner.run(agent, given, run_config=RunConfig(tracing_disabled=True))
            return str(result.final_output), [dict(item) for item in result.to_input_list()][len(history) :]

        yield _taken_up(take, left)
