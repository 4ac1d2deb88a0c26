"""`threadkeep chat`: a small agent to talk to, in a terminal or through a pipe."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import cycle
from pathlib import Path

from threadkeep.adapters.bridge import Bridge
from threadkeep.cli.chat_commands import offer_threads, resume, run_command
from threadkeep.cli.chat_session import INSTRUCTIONS, NO_MODEL, PROMPT, ChatSession
from threadkeep.cli.output import print_error
from threadkeep.cli.settings import read_config
from threadkeep.cli.terminal import Screen
from threadkeep.client import Threadkeep
from threadkeep.errors import InvalidArgument, ThreadkeepError, ThreadNotFound, UnusableFile

MORE = "  … "
BLOCK = '"""'
UNENDED = f"the input ended inside a text that began with {BLOCK}; nothing of it was sent"
INTERRUPTED = "interrupted; your message and every finished step stay in the thread, the unfinished answer does not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line or a text of several lines, as it was typed. Such a text is never a command, whatever it begins with."""

    text: str
    is_command: bool


def run(args: Namespace) -> int:
    """Talk until the input ends; 1 if anything failed where nobody was there to see it.

    Raises:
        BadInput: There is no folder to begin in, or no model to talk to.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UnusableFile(
            "the working folder", reason="is gone, and settings are read from it; change to one that exists"
        ) from None
    config = read_config(args)
    if isinstance(sys.stdin, TextIOWrapper):
        # Bytes that are no text cost their own characters, not the chat.
        sys.stdin.reconfigure(errors="replace")
    screen = Screen()
    screen.console.quiet = args.json
    with closing(Bridge()) as bridge:
        tk = Threadkeep(config, environ=os.environ)
        chat = ChatSession(tk, screen, as_json=args.json, instructions=args.instructions or INSTRUCTIONS)
        try:
            bridge.run(chat.open(args.mcp))
            if not args.resume or args.thread:
                bridge.run(_begin(chat, args.thread))
            elif bridge.run(offer_threads(chat)):
                bridge.run(resume(chat, chat.read("which one? ").strip() or "1", model=config.chat_model))
            else:
                return 0
            return _talk(chat, bridge, as_json=args.json)
        except EOFError:
            return 0
        finally:
            bridge.run(chat.close())


async def _begin(chat: ChatSession, thread_id: str | None) -> None:
    """Go on in the thread of that id, or make it."""
    model = chat.tk.config.chat_model
    try:
        thread = await chat.tk.find(thread_id) if thread_id else None
    except ThreadNotFound:
        thread = None
    if thread is None:
        if model is None:
            raise InvalidArgument("model", NO_MODEL)
        thread = await chat.tk.thread(thread_id, dialect=chat.tk.backend.models.get(model).dialect)
    await chat.go_to(thread, model=model)


def _talk(chat: ChatSession, bridge: Bridge, *, as_json: bool) -> int:
    """Carry out what is typed, and answer mail, until the input ends."""
    has_failed = False
    entry: Entry | None = None
    for is_reading in cycle((False, True)):
        try:
            if is_reading:
                entry = _read(chat)
                continue
            typed, entry = entry, None
            bridge.run(chat.handle(partial(_carry_out, chat, typed) if typed else None))
        except EOFError:
            break
        except KeyboardInterrupt:
            chat.screen.skip_line()
            chat.screen.write((INTERRUPTED, "yellow"))
        except ThreadkeepError as error:
            has_failed = True
            print_error(error, as_json=as_json)
    return 1 if has_failed and not sys.stdin.isatty() else 0


async def _carry_out(chat: ChatSession, entry: Entry) -> None:
    await (run_command(chat, entry.text) if entry.is_command else chat.say(entry.text))


def _read(chat: ChatSession) -> Entry | None:
    """Return what is typed next.

    Raises:
        EOFError: There is no more, or the person wants no more.
        InvalidArgument: A text was not ended.
    """
    try:
        return _read_entry(chat.read)
    except (EOFError, KeyboardInterrupt):
        if chat.is_terminal:
            chat.screen.skip_line()
        raise EOFError from None


def _read_entry(read: Callable[[str], str]) -> Entry | None:
    """Return what is typed next, read line by line; None where that is nothing, or was interrupted inside a text.

    Raises:
        EOFError: There is no more.
        KeyboardInterrupt: A person wants no more of it.
        InvalidArgument: There is no more, and a text was not ended.
    """
    line = read(PROMPT).strip()
    if line != BLOCK:
        return Entry(text=line, is_command=line.startswith("/")) if line else None
    lines: list[str] = []
    try:
        while (line := read(MORE).rstrip()) != BLOCK:
            lines.append(line)
    except KeyboardInterrupt:
        return None
    except EOFError:
        raise InvalidArgument("text", UNENDED) from None
    text = "\n".join(lines).strip()
    return Entry(text=text, is_command=False) if text else None
