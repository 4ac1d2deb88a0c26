"""What can be done in a chat beside talking: lines that begin with a slash."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from threadkeep.cli.cleaning import one_line
from threadkeep.cli.compact import tell_audit
from threadkeep.cli.figures import ago, count, share
from threadkeep.cli.screen import Part, Screen
from threadkeep.cli.state import show_state
from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import BadInput
from threadkeep.session import Session
from threadkeep.threads import EntryKind

RESUMABLE = 15
TITLE_CHARS = 60
# In digits: nothing has so many turns, and beyond some thousand of them no number is made of a text.
LONGEST_NUMBER = 9
MEMORY_HINT = ("`threadkeep memory run` reads the threads that are idle", "dim")


class Chat(Protocol):
    """What a command may do to a chat; `offered` are the threads it showed last, by number from 1."""

    tk: Threadkeep
    screen: Screen
    offered: list[str]

    @property
    def session(self) -> Session: ...

    async def go_to(self, thread: Thread, *, model: str | None = None) -> None:
        """Talk in another thread from here on, or to another model."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: how it is written, what it does, what answers it."""

    usage: str
    does: str
    run: Callable[[Chat, str], Awaitable[None]]


async def run_command(chat: Chat, line: str) -> None:
    """Run the command a line names.

    Raises:
        BadInput: There is no such command.
        ThreadkeepError: What the command itself raises.
    """
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise BadInput(f"there is no /{name}; /help lists what there is")
    await command.run(chat, argument.strip())


async def _help(chat: Chat, argument: str) -> None:
    rows: list[tuple[Part, list[Part]]] = [((command.usage, "cyan"), [command.does]) for command in COMMANDS.values()]
    chat.screen.entries(rows)
    chat.screen.line(('Everything else is said to the model; """ begins and ends a text of several lines. ', "dim"))
    chat.screen.line(("Ctrl-C interrupts an answer, Ctrl-D or /quit ends the chat.", "dim"))


async def _compact(chat: Chat, argument: str) -> None:
    report = await chat.session.compact(focus=argument or None)
    before, after = report.tokens_before, report.tokens_after
    chat.screen.bar("before  ", before, of=before, caption=f"{before:>9,} tokens", style="yellow")
    chat.screen.bar("after   ", after, of=before, caption=f"{after:>9,} tokens  -{share(before - after, before)}", style="green")
    fell = f", fallen back from {report.fell_back_from}" if report.fell_back_from else ""
    chat.screen.line(f"checkpoint #{report.checkpoint}  {report.strategy}{fell}", ("  /undo takes it back", "dim"))
    tell_audit(chat.screen, report.audit)


async def _context(chat: Chat, argument: str) -> None:
    thread, window = chat.session.thread, await chat.session.window()
    limits = window.pressure.limits
    caption = f"{window.pressure.tokens:,} of {limits.full:,} tokens, compacts at {limits.hard:,}"
    chat.screen.bar("", window.pressure.tokens, of=limits.full, caption=caption, style="green")
    names = {
        EntryKind.STATE: "session state",
        EntryKind.START: "said by a hook",
        EntryKind.STUB: "told in short",
        EntryKind.LITERAL: "another's compaction",
    }
    items, tokens = Counter[str](), Counter[str]()
    for entry in (await thread.history()).entries:
        view = thread.dialect.view(entry.item)
        what = names.get(entry.kind) or (
            "about the world" if view.context is not None else f"{view.role.value} {view.kind.value}"
        )
        items[what] += 1
        tokens[what] += entry.tokens
    rows: list[list[Part]] = [[what, f"{number:,}", f"{tokens[what]:,}"] for what, number in items.most_common()]
    rows.append(
        ["instructions, tools, and what providers counted more", "", f"{max(0, window.pressure.tokens - window.tokens):,}"]
    )
    chat.screen.table(["", ">items", ">tokens"], rows, indent=2)


async def _state(chat: Chat, argument: str) -> None:
    if chat.screen.console.quiet:
        return
    await show_state(chat.session.thread, as_json=False)


async def _fork(chat: Chat, argument: str) -> None:
    parent = chat.session.thread
    await chat.go_to(await parent.fork(new_id=argument or None))
    chat.screen.line(f"this is {chat.session.thread.id} now, a fork; ", (f"/resume {parent.id} goes back", "dim"))


async def _rollback(chat: Chat, argument: str) -> None:
    turns = _number_in(argument or "1")
    if turns is None:
        raise BadInput(f"{one_line(argument, limit=TITLE_CHARS)!r} is no number of turns; write /rollback 2")
    back = await chat.session.thread.rollback(turns=turns)
    chat.screen.line(f"taken back; the thread goes on from #{back.at}. ", ("What was said stays in the records.", "dim"))


async def _undo(chat: Chat, argument: str) -> None:
    checkpoint = await chat.session.thread.undo()
    chat.screen.line(f"checkpoint #{checkpoint} no longer counts; the window is what it was without it")


async def _resume(chat: Chat, argument: str) -> None:
    if argument:
        await resume(chat, argument)
    elif await offer_threads(chat):
        chat.screen.line(("/resume 2 goes on with the second", "dim"))


async def offer_threads(chat: Chat) -> bool:
    """Show the newest threads with numbers to choose them by; false where there is none."""
    threads = await chat.tk.threads(limit=RESUMABLE)
    chat.offered = [thread.id for thread in threads]
    now_ms = time.time_ns() // 1_000_000
    rows: list[list[Part]] = [
        [(f"{number}", "cyan"), thread.id, (ago(thread.updated_at_ms, now_ms=now_ms), "dim"), f"{thread.turns:,}", thread.title]
        for number, thread in enumerate(threads, start=1)
    ]
    if rows:
        chat.screen.table([">", "thread", "written", ">turns", "title"], rows)
    else:
        chat.screen.line("there is no thread to go on with yet")
    return bool(rows)


async def resume(chat: Chat, chosen: str, *, model: str | None = None) -> None:
    """Go on in the thread a person chose, by its number in what was shown last or by the beginning of its id."""
    number = _number_in(chosen) or 0
    found = chat.offered[number - 1] if 1 <= number <= len(chat.offered) else chosen
    await chat.go_to(await chat.tk.find(found), model=model)


def _number_in(text: str) -> int | None:
    """Return the number somebody typed; None where it is none, or larger than anything here is counted to."""
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else None


async def _recall(chat: Chat, argument: str) -> None:
    if not argument:
        raise BadInput("write what you look for: /recall which port does staging use")
    hits = await chat.session.thread.recall(argument)
    for hit in hits:
        chat.screen.line((str(hit.pointer), "bold cyan"))
        chat.screen.quote(hit.text)
    if not hits:
        chat.screen.line("nothing matches; any one word of it would have been enough")


async def _model(chat: Chat, argument: str) -> None:
    if argument:
        await chat.go_to(chat.session.thread, model=argument)
    chat.screen.line(f"talking to {chat.session.model.name}")


async def _memory(chat: Chat, argument: str) -> None:
    memories = chat.tk.memory
    found = await memories.search(argument) if argument else (await memories.state()).memories
    for memory in found:
        chat.screen.line((memory.id, "cyan"), f"  {memory.text}  ", (" ".join(memory.sources), "dim"))
    if not found:
        chat.screen.line("nothing is remembered that says that" if argument else "nothing is remembered yet", "; ", MEMORY_HINT)


async def _quit(chat: Chat, argument: str) -> None:
    raise EOFError


async def tell_where(chat: Chat) -> None:
    """Print which thread this is, whom it talks to, and what was said last."""
    thread = chat.session.thread
    entries = (await thread.history()).entries
    chat.screen.line((thread.id, "bold"), f"  {chat.session.model.name}", ("  /help lists what can be done", "dim"))
    views = [thread.dialect.view(entry.item) for entry in entries]
    spoken = [(view.said if view.by_person else view.text) for view in views if view.text and (view.by_person or not view.opens)]
    if entries:
        chat.screen.line((f"{count(len(entries), 'item')} in the window; said last:", "dim"))
        for text in spoken[-2:]:
            chat.screen.line((one_line(text, limit=TITLE_CHARS * 3), "dim"), indent=2)


COMMANDS: Mapping[str, Command] = {
    "compact": Command(usage="/compact [FOCUS]", does="compact now, with FOCUS kept in view", run=_compact),
    "context": Command(usage="/context", does="what fills the window", run=_context),
    "state": Command(usage="/state", does="what the newest checkpoint carries forward", run=_state),
    "fork": Command(usage="/fork [NAME]", does="go on in a new thread that begins here", run=_fork),
    "rollback": Command(usage="/rollback [N]", does="take back the last turn, or the last N", run=_rollback),
    "undo": Command(usage="/undo", does="take back the newest compaction", run=_undo),
    "resume": Command(usage="/resume [THREAD]", does="go on in another thread, chosen from the newest", run=_resume),
    "recall": Command(usage="/recall QUERY", does="find what was said, word for word; or a record by #123", run=_recall),
    "model": Command(usage="/model [NAME]", does="whom this talks to, or another of the same language", run=_model),
    "memory": Command(usage="/memory [WORDS]", does="what is remembered across threads", run=_memory),
    "help": Command(usage="/help", does="this", run=_help),
    "quit": Command(usage="/quit", does="end the chat; the thread stays", run=_quit),
}
