"""Real clients that talk until time is up, begin anew when a conversation is long enough, and remember what was answered."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from tests.drivers.codex import CodexCli

TURNS = 16
SECONDS = 60.0

Json = dict[str, Any]


class Answers:
    """Wakes those who wait for the next answer that any client gets."""

    def __init__(self) -> None:
        self._moved = asyncio.Condition()

    async def announce(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def after(self, seconds: float) -> None:
        """Return with the first answer that comes when so many seconds are over."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        async with self._moved:
            await self._moved.wait_for(lambda: loop.time() >= due)


@dataclass(slots=True, kw_only=True)
class Told:
    """One conversation: its history as the client has it, and how many items were in the last request that was answered."""

    dialect: str
    history: list[Json] = field(default_factory=list)
    acknowledged: int = 0


class Client(ABC):
    """A client of one SDK. `asked_again` counts requests that were repeated because no answer came to its end."""

    def __init__(self, name: str, *, dialect: str) -> None:
        self.name = name
        self.dialect = dialect
        self.told: list[Told] = []
        self.turns = 0
        self.asked_again = 0

    async def talk(self, is_over: Callable[[], bool], answers: Answers) -> None:
        """Lead one conversation after another."""
        while not is_over():
            told = Told(dialect=self.dialect)
            self.told.append(told)
            for turn in range(TURNS):
                text = f"{self.name}, talk {len(self.told)}: you must never rename table_{turn}."
                told.history.append(self.message(text))
                added = await self._answered(told.history, is_over)
                if added is None:
                    return
                told.acknowledged = len(told.history)
                told.history += added
                self.turns += 1
                await answers.announce()

    async def _answered(self, history: list[Json], is_over: Callable[[], bool]) -> list[Json] | None:
        while not is_over():
            try:
                return await self.ask(history)
            except (openai.APIError, anthropic.APIError, httpx2.HTTPError, RuntimeError):
                # No pause: an SDK has waited between its own tries before it gives up.
                self.asked_again += 1
        return None

    def message(self, text: str) -> Json:
        """Return what a person says, as this client writes it."""
        return {"role": "user", "content": text}

    @abstractmethod
    async def ask(self, history: list[Json]) -> list[Json]:
        """Send a history and return what is to be added to it; the answer came to its very end."""


class ResponsesClient(Client):
    """The OpenAI SDK on the Responses API, streaming."""

    def __init__(self, name: str, sdk: AsyncOpenAI) -> None:
        super().__init__(name, dialect="responses")
        self._sdk = sdk

    async def ask(self, history: list[Json]) -> list[Json]:
        given: Any = history
        async with self._sdk.responses.stream(model="m", input=given, store=False) as stream:
            response = await stream.get_final_response()
        return [item.model_dump(exclude_none=True, exclude={"parsed"}) for item in response.output]


class ChatClient(Client):
    """The OpenAI SDK on Chat Completions, streaming."""

    def __init__(self, name: str, sdk: AsyncOpenAI) -> None:
        super().__init__(name, dialect="chat")
        self._sdk = sdk

    async def ask(self, history: list[Json]) -> list[Json]:
        messages: Any = history
        async with self._sdk.chat.completions.stream(model="m", messages=messages) as stream:
            completion = await stream.get_final_completion()
        return [{"role": "assistant", "content": completion.choices[0].message.content}]


class MessagesClient(Client):
    """The Anthropic SDK, streaming."""

    def __init__(self, name: str, sdk: AsyncAnthropic) -> None:
        super().__init__(name, dialect="messages")
        self._sdk = sdk

    async def ask(self, history: list[Json]) -> list[Json]:
        messages: Any = history
        async with self._sdk.messages.stream(model="m", max_tokens=4_000, messages=messages) as stream:
            answer = await stream.get_final_message()
        return [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}]


class CodexClient:
    """The Codex command line: a process a turn, resumed from its own file. It says itself when a turn did not come to its end."""

    def __init__(self, binary: Path, *, folder: Path, base_url: str) -> None:
        self._codex = CodexCli(binary, home=folder / "home", cwd=folder / "work", base_url=base_url)
        self.answered: list[str] = []
        self.asked_again = 0

    async def talk(self, is_over: Callable[[], bool]) -> None:
        thread: str | None = None
        number = 0
        while not is_over():
            said = f"codex turn {number}: you must never rename table_{number}."
            try:
                run = await (self._codex.exec(said) if thread is None else self._codex.resume(said, thread_id=thread))
            except TimeoutError:
                self.asked_again += 1
                continue
            if run.exit_code or run.last_message is None:
                self.asked_again += 1
                continue
            thread = run.thread_id or thread
            self.answered.append(said)
            number += 1
            if number % TURNS == 0:
                thread = None
