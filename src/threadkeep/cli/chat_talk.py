"""One chat: the session a person talks to, and whoever else writes to it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from threadkeep.cli.chat_commands import run_command, tell_where
from threadkeep.cli.chat_input import PROMPT, Entry
from threadkeep.cli.chat_telling import JsonTeller, Teller, TerminalTeller
from threadkeep.cli.chat_world import world_around
from threadkeep.cli.cleaning import one_line
from threadkeep.cli.output import print_error
from threadkeep.cli.screen import Screen
from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import BadInput, ThreadkeepError
from threadkeep.session import Session, Tool, Trouble

INSTRUCTIONS = (
    "You talk with a person in a terminal. Be brief and exact. What you no longer see of this conversation you can look up with"
    " the recall tool."
)
NO_MODEL = (
    "no model is named: write --model openai:NAME, anthropic:NAME or NAME@URL for a local server"
    " (qwen@http://127.0.0.1:8080/v1), or set chat_model in your threadkeep.toml"
)


class TerminalChat:
    """One chat; see `threadkeep.cli.chat_commands.Chat` for what commands may ask of it.

    In a terminal, mail that asks for a turn is answered while the person types; through a pipe, before and after each line.
    """

    def __init__(self, tk: Threadkeep, screen: Screen, *, as_json: bool, instructions: str) -> None:
        self.tk = tk
        self.screen = screen
        self.offered: list[str] = []
        self.is_terminal = sys.stdin.isatty()
        self._instructions = instructions
        self._as_json = as_json
        self._teller: Teller = JsonTeller() if as_json else TerminalTeller(screen)
        self._opened = AsyncExitStack()
        self._session: Session | None = None
        self._tools: list[Tool] = []
        # One turn at a time: a person's words wait for the answer to a letter, and the other way round.
        self._turns = asyncio.Lock()
        self._attending: asyncio.Task[None] | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            raise BadInput(NO_MODEL)
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
        await self._opened.enter_async_context(self.tk)
        if servers:
            # The SDK behind it takes a second to load, which only who asks for a server should wait for.
            from threadkeep.cli.chat_servers import Servers

            connections = Servers()
            self._opened.push_async_callback(connections.close)
            self._tools = await connections.connect(servers)

    async def close(self) -> None:
        """Break off what goes on in the background, which is no loss, and close the store: who leaves does not wait."""
        await self._stop_attending()
        await self._opened.aclose()

    async def go_to(self, thread: Thread, *, model: str | None = None) -> None:
        current = self._session.model.name if self._session is not None else None
        asked = model or current or await thread.last_model()
        if asked is None:
            raise BadInput(NO_MODEL)
        world = partial(world_around, asked, trouble=lambda text: self._teller.hear(Trouble(text=text)))
        memory = self.tk.memory if self.tk.config.chat_memory == "on" else None
        session = Session(thread, model=asked, tools=self._tools, instructions=self._instructions, context=world, memory=memory)
        await self._stop_attending()
        self._session = session
        if self.is_terminal:
            await tell_where(self)
            await _fill_arrow_keys(thread)

    async def take(self, entry: Entry | None) -> None:
        """Do what was typed, if anything was, and see to the mail that asks for a turn.

        Raises:
            EOFError: The person wants to leave.
            ThreadkeepError: What was typed could not be done, or mail not be answered.
        """
        async with self._turns:
            if entry is not None:
                await (run_command(self, entry.text) if entry.is_command else self._turn(entry.text))
            if not self.is_terminal:
                while (await self.session.thread.mail()).starts_turn:
                    await self._turn(None)
        if self.is_terminal and (self._attending is None or self._attending.done()):
            self._attending = asyncio.create_task(self._attend())

    async def interrupt_answer_to_mail(self) -> bool:
        """End the turn that a letter began, if one is under way."""
        under_way = self._turns.locked()
        if under_way:
            await self._stop_attending()
        return under_way

    async def _turn(self, said: str | None) -> None:
        """Say something, or nothing where mail is to be answered, and tell what comes of it."""
        try:
            answer = await self.session.ask(said, hear=self._teller.hear)
        finally:
            if isinstance(self._teller, TerminalTeller):
                self._teller.end_line()
        self._teller.turn_over(self.session, answer, await self.session.window())

    async def _attend(self) -> None:
        """Answer mail that asks for a turn, until something fails, which is told; it is begun again with what is typed next."""
        try:
            while True:
                await self.session.thread.wait_for_turn()
                async with self._turns:
                    box = await self.session.thread.mail()
                    if box.starts_turn:
                        senders = ", ".join(dict.fromkeys(one_line(mail.sender) or "somebody" for mail in box.pending))
                        self.screen.gap()
                        self.screen.line((f"mail from {senders}", "magenta"))
                        await self._turn(None)
                        self._prompt_again()
        except ThreadkeepError as error:
            print_error(error, as_json=self._as_json)
            self._prompt_again()

    def _prompt_again(self) -> None:
        import readline

        self.screen.console.file.write(PROMPT + readline.get_line_buffer())
        self.screen.console.file.flush()

    async def _stop_attending(self) -> None:
        if self._attending is not None:
            self._attending.cancel()
            await asyncio.wait((self._attending,))
            self._attending = None


async def _fill_arrow_keys(thread: Thread) -> None:
    """Put what was said in a thread under the arrow keys, and let lines be edited."""
    import readline

    readline.clear_history()
    views = [thread.dialect.view(entry.item) for entry in (await thread.history()).entries]
    for view in views:
        if view.by_person:
            readline.add_history(one_line(view.said))
