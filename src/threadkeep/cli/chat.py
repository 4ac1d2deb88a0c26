"""`threadkeep chat`: a small agent to talk to, in a terminal or through a pipe."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from io import TextIOWrapper
from pathlib import Path

from threadkeep.cli.chat_commands import offer_threads, resume
from threadkeep.cli.chat_input import Entry, entry_from
from threadkeep.cli.chat_talk import INSTRUCTIONS, NO_MODEL, TerminalChat
from threadkeep.cli.event_loop import LoopThread
from threadkeep.cli.opening import settings_of
from threadkeep.cli.output import print_error
from threadkeep.cli.screen import Screen
from threadkeep.client import Threadkeep, build_config
from threadkeep.errors import BadInput, ThreadkeepError, ThreadNotFound

INTERRUPTED = "interrupted; what you said stays, and each step that was finished. What was still being said does not"


def run(args: Namespace) -> int:
    """Talk until the input ends; 1 if anything went wrong where nobody was there to see it.

    Raises:
        BadInput: There is no folder to begin in, or no model to talk to.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        raise BadInput("the folder you are in is gone, and settings are looked for in it; go to one that is there") from None
    config = build_config(settings_of(args))
    if isinstance(sys.stdin, TextIOWrapper):
        # Bytes that are no text cost their own characters, not the chat.
        sys.stdin.reconfigure(errors="replace")
    screen = Screen()
    screen.console.quiet = args.json
    with LoopThread() as loop:
        tk = Threadkeep(config, environ=os.environ)
        chat = TerminalChat(tk, screen, as_json=args.json, instructions=args.instructions or INSTRUCTIONS)
        try:
            loop.run(chat.open(args.mcp))
            if args.resume and not args.thread:
                _choose(chat, loop)
            else:
                loop.run(_begin(chat, args.thread))
            return _talk(chat, loop, as_json=args.json)
        except EOFError:
            return 0
        finally:
            loop.run(chat.close())


async def _begin(chat: TerminalChat, thread_id: str | None) -> None:
    """Go on in the thread of that id, or make it."""
    model = chat.tk.config.chat_model
    try:
        thread = await chat.tk.find(thread_id) if thread_id else None
    except ThreadNotFound:
        thread = None
    if thread is not None:
        await chat.go_to(thread, model=model)
    elif model is None:
        raise BadInput(NO_MODEL)
    else:
        asked = chat.tk.backend.models.get(model)
        await chat.go_to(await chat.tk.thread(thread_id, dialect=asked.dialect), model=model)


def _choose(chat: TerminalChat, loop: LoopThread) -> None:
    """Let a person choose the thread to go on in.

    Raises:
        EOFError: There is none, or none was chosen.
    """
    if not loop.run(offer_threads(chat)):
        raise EOFError
    loop.run(resume(chat, chat.read("which one? ").strip() or "1", model=chat.tk.config.chat_model))


def _talk(chat: TerminalChat, loop: LoopThread, *, as_json: bool) -> int:
    """Take what is typed, and the mail that waits, until the input ends."""
    failed = False
    entry: Entry | None = None
    while True:
        try:
            loop.run(chat.take(entry))
        except EOFError:
            break
        except KeyboardInterrupt:
            _tell_interrupted(chat)
        except ThreadkeepError as error:
            failed = True
            print_error(error, as_json=as_json)
        entry = None
        try:
            entry = _typed(chat, loop)
        except EOFError:
            break
        except KeyboardInterrupt:
            _tell_interrupted(chat)
        except BadInput as error:
            failed = True
            print_error(error, as_json=as_json)
    return 1 if failed and not sys.stdin.isatty() else 0


def _typed(chat: TerminalChat, loop: LoopThread) -> Entry | None:
    """Return what is typed next.

    Raises:
        EOFError: There is no more, or the person wants no more.
        KeyboardInterrupt: The person interrupted an answer to mail; by then it was cancelled.
        BadInput: A text was not ended.
    """
    try:
        return entry_from(chat.read)
    except (EOFError, KeyboardInterrupt) as end:
        if isinstance(end, KeyboardInterrupt) and loop.run(chat.interrupt_answer_to_mail()):
            raise
        chat.screen.gap() if chat.is_terminal else None
        raise EOFError from None


def _tell_interrupted(chat: TerminalChat) -> None:
    chat.screen.gap()
    chat.screen.line((INTERRUPTED, "yellow"))
