"""`holdfast chat`: a small agent to talk to, in a terminal or through a pipe."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from platform import platform
from typing import TYPE_CHECKING

from holdfast.cli.chat_commands import offer_threads, resume, run_command, tell_where
from holdfast.cli.chat_telling import JsonTeller, Teller, TerminalTeller
from holdfast.cli.cleaning import one_line
from holdfast.cli.event_loop import LoopThread
from holdfast.cli.opening import settings_of
from holdfast.cli.output import print_error
from holdfast.cli.screen import Screen
from holdfast.errors import BadInput, HoldfastError, ThreadNotFound
from holdfast.runtime import Holdfast, Thread, config_of
from holdfast.session import Session, Tool

if TYPE_CHECKING:
    from holdfast.cli.chat_servers import Servers

PROMPT = "you › "
MORE = "  … "
BLOCK = '"""'
INSTRUCTIONS = (
    "You talk with a person in a terminal. Be brief and exact. What you no longer see of this conversation you can look up with"
    " the recall tool."
)
INSTRUCTION_FILE = "AGENTS.md"
MAX_INSTRUCTION_BYTES = 64 * 1024
NO_MODEL = (
    "no model is named: write --model openai:NAME, anthropic:NAME or NAME@URL for a local server"
    " (qwen@http://127.0.0.1:8080/v1), or set chat_model in a holdfast.toml"
)


def run(args: Namespace) -> int:
    """Talk until the input ends; 1 if anything went wrong where nobody was there to see it."""
    config = config_of(settings_of(args))
    screen = Screen()
    screen.console.quiet = args.json
    with LoopThread() as loop:
        hf = loop.run(_opened(Holdfast(config, environ=os.environ)))
        chat = TerminalChat(hf, screen, as_json=args.json, instructions=args.instructions or INSTRUCTIONS)
        try:
            loop.run(chat.equip(args.mcp))
            if args.resume and not args.thread:
                _choose(chat, loop)
            else:
                loop.run(_begin(chat, args.thread))
            return _talk(chat, loop, as_json=args.json)
        except EOFError:
            return 0
        finally:
            loop.run(chat.close())


async def _opened(hf: Holdfast) -> Holdfast:
    return await hf.__aenter__()


async def _begin(chat: TerminalChat, thread_id: str | None) -> None:
    """Go on in the thread of that id, or make it."""
    model = chat.hf.config.chat_model
    try:
        thread = await chat.hf.find(thread_id) if thread_id else None
    except ThreadNotFound:
        thread = None
    if thread is not None:
        await chat.go_to(thread, model=model)
    elif model is None:
        raise BadInput(NO_MODEL)
    else:
        asked = chat.hf.backend.models.named(model)
        await chat.go_to(await chat.hf.thread(thread_id, dialect=asked.dialect), model=model)


def _choose(chat: TerminalChat, loop: LoopThread) -> None:
    """Let a person choose the thread to go on in.

    Raises:
        EOFError: There is none, or none was chosen.
    """
    if not loop.run(offer_threads(chat)):
        raise EOFError
    loop.run(resume(chat, chat.read("which one? ").strip() or "1", model=chat.hf.config.chat_model))


def _talk(chat: TerminalChat, loop: LoopThread, *, as_json: bool) -> int:
    failed = False
    for line in _lines(chat):
        try:
            loop.run(run_command(chat, line) if line.startswith("/") else chat.turn(line))
        except KeyboardInterrupt:
            chat.screen.gap()
            chat.screen.line(("interrupted; what was said so far stays", "yellow"))
        except HoldfastError as error:
            failed = True
            print_error(error, as_json=as_json)
        except EOFError:
            break
    return 1 if failed and not sys.stdin.isatty() else 0


def _lines(chat: TerminalChat) -> Iterator[str]:
    """Yield what a person says or commands, until the input ends."""
    while True:
        try:
            line = chat.read(PROMPT).strip()
            if line == BLOCK:
                line = "\n".join(iter(lambda: chat.read(MORE).rstrip(), BLOCK)).strip()
        except (EOFError, KeyboardInterrupt):
            chat.screen.gap() if chat.is_terminal else None
            return
        if line:
            yield line


class TerminalChat:
    """One chat; see `holdfast.cli.chat_commands.Chat` for what commands may ask of it."""

    def __init__(self, hf: Holdfast, screen: Screen, *, as_json: bool, instructions: str) -> None:
        self.hf = hf
        self.screen = screen
        self.offered: list[str] = []
        self.is_terminal = sys.stdin.isatty()
        self._instructions = instructions
        self._teller: Teller = JsonTeller() if as_json else TerminalTeller(screen)
        self._session: Session | None = None
        self._servers: Servers | None = None
        self._tools: list[Tool] = []

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

    async def equip(self, servers: Sequence[str]) -> None:
        """Give the model the tools of MCP servers.

        Raises:
            BadInput: One of them cannot be used.
        """
        if servers:
            # The SDK behind it takes a second to load, which only who asks for a server should wait for.
            from holdfast.cli.chat_servers import Servers

            self._servers = Servers()
            self._tools = await self._servers.connect(servers)

    async def go_to(self, thread: Thread, *, model: str | None = None) -> None:
        current = self._session.model.name if self._session is not None else None
        asked = model or current or await thread.last_model()
        if asked is None:
            raise BadInput(NO_MODEL)
        world = partial(_world, asked)
        memory = self.hf.memory if self.hf.config.chat_memory == "on" else None
        session = Session(thread, model=asked, tools=self._tools, instructions=self._instructions, context=world, memory=memory)
        await self._leave()
        self._session = await session.__aenter__()
        if self.is_terminal:
            await tell_where(self)
            await _fill_arrow_keys(thread)

    async def turn(self, said: str) -> None:
        """Say something and tell what comes of it."""
        try:
            answer = await self.session.ask(said, hear=self._teller.hear)
        finally:
            if isinstance(self._teller, TerminalTeller):
                self._teller.end_line()
        self._teller.turn_over(self.session, answer, await self.session.window())

    async def close(self) -> None:
        """Finish what goes on in the background and close the store."""
        await self._leave()
        if self._servers is not None:
            await self._servers.close()
        await self.hf.__aexit__(None, None, None)

    async def _leave(self) -> None:
        if self._session is not None:
            await self._session.__aexit__(None, None, None)
            self._session = None


async def _fill_arrow_keys(thread: Thread) -> None:
    """Put what was said in a thread under the arrow keys, and let lines be edited."""
    import readline

    readline.clear_history()
    views = [thread.dialect.view(entry.item) for entry in (await thread.history()).entries]
    for view in views:
        if view.by_person:
            readline.add_history(one_line(view.said))


def _world(model: str) -> dict[str, object]:
    """Return what the model is told about where it is; only what changed costs anything."""
    now = datetime.now().astimezone()
    world: dict[str, object] = {
        "cwd": str(Path.cwd()),
        "date": now.date().isoformat(),
        "timezone": now.tzname() or "",
        "system": platform(terse=True),
        "model": model,
    }
    instructions = Path(INSTRUCTION_FILE)
    if instructions.is_file():
        world[INSTRUCTION_FILE] = instructions.read_bytes()[:MAX_INSTRUCTION_BYTES].decode("utf-8", "replace")
    return world
