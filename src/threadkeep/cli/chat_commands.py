"""The commands of a chat: lines that begin with a slash."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from threadkeep.cli.chat_session import ChatSession
from threadkeep.cli.compact import print_audit
from threadkeep.cli.safe_text import clean_line
from threadkeep.cli.state_output import show_state
from threadkeep.cli.terminal import Entry, Row
from threadkeep.errors import InvalidArgument
from threadkeep.threads import EntryKind
from threadkeep.viewer.number_format import format_age

OFFERED_THREADS = 15
ECHO_CHARS = 60
# More digits are no number of turns or threads, and a huge number would be slow to parse.
MOST_DIGITS = 9
KINDS = {
    EntryKind.STATE: "session state",
    EntryKind.START: "said by a hook",
    EntryKind.STUB: "shortened outputs",
    EntryKind.LITERAL: "another's compaction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: its form, its help, and the function that carries it out."""

    usage: str
    help: str
    run: Callable[[ChatSession, str], Awaitable[None]]


async def run_command(chat: ChatSession, line: str) -> None:
    """Run the command a line names.

    Raises:
        InvalidArgument: There is no such command.
        ThreadkeepError: What the command itself raises.
    """
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise InvalidArgument("command", f"there is no /{name}; /help lists the commands")
    await command.run(chat, argument.strip())


async def _help(chat: ChatSession, argument: str) -> None:
    entries: list[Entry] = [((command.usage, "cyan"), [command.help]) for command in COMMANDS.values()]
    chat.screen.write_entries(entries)
    chat.screen.write(('Everything else is said to the model; """ begins and ends a text of several lines. ', "dim"))
    chat.screen.write(("Ctrl-C interrupts an answer, Ctrl-D or /quit ends the chat.", "dim"))


async def _compact(chat: ChatSession, argument: str) -> None:
    report = await chat.session.compact(focus=argument or None)
    chat.screen.draw_shrinkage(report.tokens_before, report.tokens_after)
    fell_back = f", fell back from {report.fell_back_from}" if report.fell_back_from else ""
    chat.screen.write(f"checkpoint #{report.checkpoint}  {report.strategy}{fell_back}", ("  /undo takes it back", "dim"))
    print_audit(chat.screen, report.audit)


async def _context(chat: ChatSession, argument: str) -> None:
    thread, window = chat.session.thread, await chat.session.window()
    limits = window.pressure.limits
    caption = f"{window.pressure.tokens:,} of {limits.full:,} tokens, compacts at {limits.hard:,}"
    chat.screen.draw_bar("", window.pressure.tokens, of=limits.full, caption=caption, style="green")
    items, tokens = Counter[str](), Counter[str]()
    for entry in (await thread.history()).entries:
        view = thread.dialect.view(entry.item)
        about = "about the world" if view.context is not None else f"{view.role.value} {view.kind.value}"
        kind = KINDS.get(entry.kind, about)
        items[kind] += 1
        tokens[kind] += entry.tokens
    rows: list[Row] = [[kind, f"{number:,}", f"{tokens[kind]:,}"] for kind, number in items.most_common()]
    rows.append(["instructions, tools, provider's own count", "", f"{max(0, window.pressure.tokens - window.tokens):,}"])
    chat.screen.write_table(["", ">items", ">tokens"], rows, indent=2)


async def _state(chat: ChatSession, argument: str) -> None:
    if not chat.screen.console.quiet:
        await show_state(chat.session.thread, as_json=False)


async def _fork(chat: ChatSession, argument: str) -> None:
    parent = chat.session.thread
    await chat.go_to(await parent.fork(new_id=argument or None))
    chat.screen.write(f"this is {chat.session.thread.id} now, a fork; ", (f"/resume {parent.id} goes back", "dim"))


async def _rollback(chat: ChatSession, argument: str) -> None:
    turns = _parse_number(argument or "1")
    if turns is None:
        text = f"{clean_line(argument, limit=ECHO_CHARS)!r} is no number of turns; write /rollback 2"
        raise InvalidArgument("turns", text)
    made = await chat.session.thread.rollback(turns=turns)
    chat.screen.write(f"taken back; the thread goes on from #{made.at}. ", ("The records stay readable.", "dim"))


async def _undo(chat: ChatSession, argument: str) -> None:
    checkpoint = await chat.session.thread.undo()
    chat.screen.write(f"checkpoint #{checkpoint} was undone; the window is what it was without it")


async def _resume(chat: ChatSession, argument: str) -> None:
    if argument:
        await resume(chat, argument)
    elif await offer_threads(chat):
        chat.screen.write(("/resume 2 goes on with the second", "dim"))


async def offer_threads(chat: ChatSession) -> bool:
    """Show the newest threads with numbers to choose them by; false where there is none."""
    threads = await chat.tk.threads(limit=OFFERED_THREADS)
    chat.offered = [thread.id for thread in threads]
    now_ms = time.time_ns() // 1_000_000
    rows: list[Row] = [
        [(f"{number}", "cyan"), each.id, (format_age(each.updated_at_ms, now_ms), "dim"), f"{each.turns:,}", each.title]
        for number, each in enumerate(threads, start=1)
    ]
    if rows:
        chat.screen.write_table([">", "thread", "written", ">turns", "title"], rows)
    else:
        chat.screen.write("there is no thread to go on with yet")
    return bool(rows)


async def resume(chat: ChatSession, chosen: str, *, model: str | None = None) -> None:
    """Go on in the thread a person chose, by its number in the list shown last or by the beginning of its id."""
    number = _parse_number(chosen) or 0
    found = chat.offered[number - 1] if 1 <= number <= len(chat.offered) else chosen
    await chat.go_to(await chat.tk.find(found), model=model)


def _parse_number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


async def _recall(chat: ChatSession, argument: str) -> None:
    if not argument:
        raise InvalidArgument("query", "write what you look for: /recall which port does staging use")
    hits = await chat.session.thread.recall(argument)
    for hit in hits:
        chat.screen.write((str(hit.pointer), "bold cyan"))
        chat.screen.write_quote(hit.text)
    if not hits:
        chat.screen.write("no record has any of these words; try others")


async def _model(chat: ChatSession, argument: str) -> None:
    if argument:
        await chat.go_to(chat.session.thread, model=argument)
    chat.screen.write(f"talking to {chat.session.model.name}")


async def _memory(chat: ChatSession, argument: str) -> None:
    memories = chat.tk.memory
    found = await memories.search(argument) if argument else (await memories.state()).memories
    for memory in found:
        chat.screen.write((memory.id, "cyan"), f"  {memory.text}  ", (" ".join(memory.sources), "dim"))
    if not found:
        nothing = "no memory has any of these words; " if argument else "nothing is remembered yet; "
        chat.screen.write(nothing, ("`threadkeep memory run` reads the threads that are idle", "dim"))


async def _quit(chat: ChatSession, argument: str) -> None:
    raise EOFError


COMMANDS: Mapping[str, Command] = {
    "compact": Command(usage="/compact [FOCUS]", help="compact now, with FOCUS kept in view", run=_compact),
    "context": Command(usage="/context", help="show what fills the window", run=_context),
    "state": Command(usage="/state", help="show the session state", run=_state),
    "fork": Command(usage="/fork [NAME]", help="go on in a new thread that begins here", run=_fork),
    "rollback": Command(usage="/rollback [N]", help="take back the last turn, or the last N", run=_rollback),
    "undo": Command(usage="/undo", help="take back the newest compaction", run=_undo),
    "resume": Command(usage="/resume [THREAD]", help="go on in another thread, chosen from the newest", run=_resume),
    "recall": Command(usage="/recall QUERY", help="find what was said, word for word; or a record by #123", run=_recall),
    "model": Command(usage="/model [NAME]", help="name the model, or talk to another of the same dialect", run=_model),
    "memory": Command(usage="/memory [WORDS]", help="show what is remembered across threads", run=_memory),
    "help": Command(usage="/help", help="list the commands", run=_help),
    "quit": Command(usage="/quit", help="end the chat; the thread stays", run=_quit),
}
