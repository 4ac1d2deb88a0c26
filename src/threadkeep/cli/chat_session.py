"""One chat: the session a person talks to, the mail that others send to it, and its turns on the screen."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from platform import platform
from typing import Final, assert_never

from rich.text import Text

from threadkeep.cli.output import print_json
from threadkeep.cli.safe_text import clean, clean_line
from threadkeep.cli.terminal import Screen
from threadkeep.client import Thread, Threadkeep, Window
from threadkeep.errors import InvalidArgument
from threadkeep.session import Answer, Asked, Called, Compacted, Event, Returned, Said, Session, Tool, Trouble
from threadkeep.session.mcp_tools import mcp_tools
from threadkeep.viewer.number_format import format_count, format_share

PROMPT = "you › "
INSTRUCTIONS = (
    "You talk with a person in a terminal. Be brief and exact. Earlier parts of this conversation that you no longer see can be"
    " found with the recall tool."
)
NO_MODEL = (
    "no model is named: write --model openai:NAME, anthropic:NAME or NAME@URL for a local server"
    " (qwen@http://127.0.0.1:8080/v1), or set chat_model in your threadkeep.toml"
)
CALL_CHARS = 160
OUTPUT_CHARS = 120
LAST_WORDS_CHARS = 180
NO_FOLDER: Final = "none: the folder this was started in is gone"
INSTRUCTION_FILE: Final = "AGENTS.md"
MAX_INSTRUCTION_BYTES: Final = 64 * 1024


class ChatSession:
    """A store, a thread in it and a model to talk to. `offered` are the threads shown last, by number from 1.

    Mail that asks for a turn is answered before and after each line.
    """

    def __init__(self, tk: Threadkeep, screen: Screen, *, as_json: bool, instructions: str) -> None:
        self.tk = tk
        self.screen = screen
        self.offered: list[str] = []
        self.is_terminal = sys.stdin.isatty()
        self._instructions = instructions
        self._as_json = as_json
        self._printer = TurnPrinter(screen, as_json=as_json)
        self._resources = AsyncExitStack()
        self._session: Session | None = None
        self._tools: list[Tool] = []

    @property
    def session(self) -> Session:
        if self._session is None:
            raise InvalidArgument("model", NO_MODEL)
        return self._session

    def read(self, prompt: str) -> str:
        """Return one line.

        Raises:
            EOFError: There are no more.
        """
        return input(prompt if self.is_terminal else "")

    async def open(self, servers: Sequence[str]) -> None:
        """Open the store, and give the model the tools of MCP servers.

        Raises:
            BadInput: One of them cannot be used.
        """
        await self._resources.enter_async_context(self.tk)
        if servers:
            connections = _ServerConnections()
            self._resources.push_async_callback(connections.close)
            self._tools = await connections.open(servers)

    async def close(self) -> None:
        """Close the store and leave the MCP servers."""
        await self._resources.aclose()

    async def go_to(self, thread: Thread, *, model: str | None = None) -> None:
        """Talk in this thread from here on, to `model` or, without one, to the same as before."""
        current = self._session.model.name if self._session is not None else None
        chosen = model or current or await thread.last_model()
        if chosen is None:
            raise InvalidArgument("model", NO_MODEL)
        context = partial(describe_world, chosen, warn=lambda text: self._printer.print_event(Trouble(text=text)))
        memory = self.tk.memory if self.tk.config.chat_memory == "on" else None
        session = Session(
            thread, model=chosen, tools=self._tools, instructions=self._instructions, context=context, memory=memory
        )
        self._session = session
        if self.is_terminal:
            await self._print_place(thread)

    async def handle(self, work: Callable[[], Awaitable[None]] | None) -> None:
        """Carry out what was typed, if anything was, and answer the mail that asks for a turn.

        Raises:
            EOFError: The person wants to leave.
            ThreadkeepError: The work failed, or mail could not be answered.
        """
        if work is not None:
            await work()
        while (box := await self.session.thread.mail()).starts_turn:
            senders = ", ".join(dict.fromkeys(clean_line(mail.sender) or "unknown" for mail in box.pending))
            if self.is_terminal:
                self.screen.write((f"mail from {senders}", "magenta"))
            await self.say(None)

    async def say(self, text: str | None) -> None:
        """Say something to the model, or nothing where mail is to be answered, and print the turn."""
        try:
            answer = await self.session.ask(text, hear=self._printer.print_event)
        finally:
            self._printer.end_line()
        self._printer.end_turn(self.session, answer, await self.session.window())

    async def _print_place(self, thread: Thread) -> None:
        """Print the thread, the model and the last words, and put what people said under the arrow keys."""
        import readline

        self.screen.write((thread.id, "bold"), f"  {self.session.model.name}", ("  /help lists the commands", "dim"))
        views = [thread.dialect.view(entry.item) for entry in (await thread.history()).entries]
        if views:
            self.screen.write((f"{format_count(len(views), 'item')} in the window; the last words:", "dim"))
        words = [
            (view.said if view.by_person else view.text) for view in views if view.text and (view.by_person or not view.opens)
        ]
        for text in words[-2:]:
            self.screen.write((clean_line(text, limit=LAST_WORDS_CHARS), "dim"), indent=2)
        readline.clear_history()
        for view in views:
            if view.by_person:
                readline.add_history(clean_line(view.said))


class _ServerConnections:
    """MCP servers that stay connected. One task enters and leaves them all: the protocol's SDK insists on that."""

    def __init__(self) -> None:
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, servers: Sequence[str]) -> list[Tool]:
        """Connect to all of them and return their tools.

        Raises:
            BadInput: One of them cannot be used; none is connected then.
        """
        tools: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(servers, tools))
        await asyncio.wait((self._task, tools), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task
        return await tools

    async def close(self) -> None:
        self._leave.set()
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _hold(self, servers: Sequence[str], tools: asyncio.Future[list[Tool]]) -> None:
        async with AsyncExitStack() as connected:
            found = [tool for server in servers for tool in await connected.enter_async_context(mcp_tools(server))]
            tools.set_result(found)
            await self._leave.wait()


class TurnPrinter:
    """Prints words as they come; thoughts and tools are dim. Without a terminal the answer alone, with `as_json` one object."""

    def __init__(self, screen: Screen, *, as_json: bool) -> None:
        self._screen = screen
        self._as_json = as_json
        self._is_terminal = screen.console.is_terminal
        self._at_line_start = True
        self._in_thought = False
        self._spent_usd = 0.0

    def print_event(self, event: Event) -> None:
        """Print an event of a turn."""
        match event:
            case Said():
                self._print_words(event)
            case Asked():
                if event.attempt > 1:
                    self._print_aside(f"no answer; asking again ({event.attempt})", "yellow")
            case Called():
                self._print_aside(f"{event.call.name} {event.call.arguments}"[:CALL_CHARS], "cyan")
            case Returned():
                self._print_aside(f"  {clean_line(event.text, limit=OUTPUT_CHARS)}", "red" if event.failed else "dim")
            case Compacted():
                self._print_aside(
                    f"compacted: checkpoint #{event.checkpoint}, {event.tokens:,} tokens in the window now", "magenta"
                )
            case Trouble():
                self._print_aside(event.text, "yellow")
            case Answer():
                self.end_line()
                if event.ending != "finished":
                    self._print_aside("(it ran out of room)" if event.ending == "length" else "(it refused)", "yellow")
            case _:
                assert_never(event)

    def end_turn(self, session: Session, answer: Answer, window: Window) -> None:
        """Print how full the window is, and the cost where the provider reports it."""
        tokens, limit = window.pressure.tokens, window.pressure.limits.hard
        if self._as_json:
            turn = {"thread": session.thread.id, "model": session.model.name, **asdict(answer)}
            print_json({**turn, "tokens": tokens, "checkpoint": window.checkpoint})
        elif self._is_terminal:
            self._spent_usd += answer.cost_usd or 0.0
            cost = f"  ${answer.cost_usd:.4f}, ${self._spent_usd:.4f} so far" if answer.cost_usd is not None else ""
            self._screen.draw_bar(
                "", tokens, of=limit, caption=f"{format_share(tokens, limit)} of {limit:,} tokens{cost}", style="dim"
            )

    def end_line(self) -> None:
        """Begin a new line, if words stand on this one."""
        if not self._at_line_start:
            self._print_text("\n", "")
        self._in_thought = False

    def _print_words(self, said: Said) -> None:
        if said.is_thought and not self._is_terminal:
            return
        if said.is_thought != self._in_thought:
            self.end_line()
            self._in_thought = said.is_thought
        self._print_text(clean(said.text), "dim italic" if said.is_thought else "")

    def _print_aside(self, text: str, style: str) -> None:
        self.end_line()
        if self._is_terminal:
            self._screen.write_cut((text, style))

    def _print_text(self, text: str, style: str) -> None:
        if text:
            self._screen.console.print(Text(text, style), end="", soft_wrap=True)
            self._screen.console.file.flush()
            self._at_line_start = text.endswith("\n")


def describe_world(model: str, *, warn: Callable[[str], None]) -> dict[str, object]:
    """Return the folder, date, system, model and the folder's instructions, of which the model is told the changes."""
    now = datetime.now().astimezone()
    world: dict[str, object] = {
        "cwd": _name_folder(),
        "date": now.date().isoformat(),
        "timezone": now.tzname() or "",
        "system": platform(terse=True),
        "model": model,
    }
    file = Path(INSTRUCTION_FILE)
    try:
        if file.is_file():
            with file.open("rb") as opened:
                world[INSTRUCTION_FILE] = opened.read(MAX_INSTRUCTION_BYTES).decode("utf-8", "replace")
    except OSError as error:
        warn(f"{INSTRUCTION_FILE} of this folder cannot be read ({error.strerror or type(error).__name__}); it is left out")
    return world


def _name_folder() -> str:
    try:
        # A name is bytes; what is not UTF-8 is replaced.
        return os.fsencode(Path.cwd()).decode("utf-8", "replace")
    except FileNotFoundError:
        return NO_FOLDER
