"""Runs the commands that a person types in a chat, and words the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from threadkeep.client.thread import Thread
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.report import CompactionReport
from threadkeep.dialects import Dialect
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.conversation.command_detection import VERBS, Command, CommandNames, Verb, guess_verb
from threadkeep.gateway.conversation.compaction import Compactor
from threadkeep.gateway.conversation.open_request import OpenRequest
from threadkeep.gateway.conversation.rules import AutoCompact, Rules
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache
from threadkeep.hooks import HookRun, RunOutcome
from threadkeep.threads.forks_and_undos import undo_compaction
from threadkeep.tokens import Pressure

RECALLED = 5
FAILED: Final[Mapping[Verb, str]] = {
    "compact": "Not compacted",
    "undo": "Nothing was undone",
    "recall": "Not found",
    "pin": "Not pinned",
    "unpin": "Not unpinned",
    "note": "Not noted",
}
USAGES: Final = (
    "compact [FOCUS]: compact this conversation now",
    "status: how full the window is",
    "undo: take the newest compaction back",
    "recall WORDS: find what was compacted away; #N shows that record",
    "note WORDS: write down what the agent must know after the next compaction",
    "pin WORDS: the same, and no compaction may drop it; #N pins what is there",
    "unpin #N: let later compactions drop it again",
    "help: this list",
)
# `#12` is a record, `12` or `[12]` an entry of the state as `threadkeep show --state` lists it.
_pointer = re.compile(r"(?P<record>#[0-9]{1,10})|\[?(?P<entry>[0-9]{1,10})\]?")


class CommandAnswers:
    """Runs the commands of conversations in one dialect, and words the answers."""

    def __init__(self, backend: Backend, dialect: Dialect, compactor: Compactor, threads: ThreadCache, rules: Rules) -> None:
        self._backend = backend
        self._dialect = dialect
        self._compactor = compactor
        self._threads = threads
        self._rules = rules

    async def answer(self, command: Command, known: KnownThread, opened: OpenRequest) -> str:
        """Run a command and return its answer, or why it failed: a command is never passed on to the model."""
        try:
            return await self._run(command, known, opened)
        except ThreadkeepError as error:
            return f"{FAILED.get(command.verb, 'Not done')}: {error}"

    async def _run(self, command: Command, known: KnownThread, opened: OpenRequest) -> str:
        match command.verb:
            case "compact":
                report = await self._compactor.compact_on_command(known, opened, focus=command.argument)
                return render_compaction(report, names=self._rules.commands)
            case "undo":
                self._threads.forget(known.thread_id)
                ordinal = await undo_compaction(self._backend, known.thread_id)
                return f"The compaction at #{ordinal} no longer counts; the conversation goes on as it was before it."
            case "recall":
                return await self._recall(known, command.argument)
            case "status":
                pressure, mode = self._compactor.measure(known, opened), self._compactor.find_mode(opened.hints)
                delay = self._compactor.explain_delay(known, opened)
                return render_status(known, pressure, items=len(opened.history.items), mode=mode, delay=delay)
            case "pin" | "unpin" | "note":
                self._threads.forget(known.thread_id)
                thread = Thread(self._backend, known.thread_id, dialect=self._dialect)
                change = {"pin": pin_text, "unpin": unpin_text, "note": note_text}[command.verb]
                return await change(thread, command.argument, name=self._rules.commands.control[0])
            case "help":
                return render_help(self._rules, misunderstood=command.argument)

    async def _recall(self, known: KnownThread, query: str | None) -> str:
        if not query:
            return "Say what to look for: words, or a record's number such as #12."
        hits = await Thread(self._backend, known.thread_id, dialect=self._dialect).recall(query, limit=RECALLED)
        if not hits:
            return f"Nothing in this conversation matches {query!r}."
        return "\n\n".join(f"{hit.pointer}\n{hit.text}" for hit in hits)


def render_compaction(report: CompactionReport, *, names: CommandNames) -> str:
    """Return a compaction's report for the person who asked for it, with the warnings and failures of hooks."""
    recall, undo = (
        (f"{names.control[0]} recall WORDS", f"{names.control[0]} undo")
        if names.control
        else (f"threadkeep recall {report.thread} WORDS", f"threadkeep undo {report.thread}")
    )
    saved = 100 - report.tokens_after * 100 // max(1, report.tokens_before)
    counts = report.audit.counts()
    repaired = f"{counts['repaired']} of them were put back word for word" if counts["repaired"] else "all of them did"
    hooks = "".join(f"\n{line}" for run in report.hooks for line in _render_hook_run(run))
    return (
        f"Compacted: {report.tokens_before:,} → {report.tokens_after:,} tokens ({saved} % smaller), "
        f"{report.model_calls} model calls.\n"
        f"{counts['required']} things had to survive; {repaired}.\n"
        f"Nothing is lost: `{recall}` finds originals, `{undo}` takes this compaction back.{hooks}"
    )


def _render_hook_run(run: HookRun) -> list[str]:
    said = [f"A hook says: {run.warning}"] if run.warning is not None and not run.quiet else []
    failed = run.outcome in (RunOutcome.FAILED, RunOutcome.TIMED_OUT)
    return [*said, *([f"The hook {run.name} failed and held nothing up: {run.message}"] if failed else [])]


def render_status(known: KnownThread, pressure: Pressure, *, items: int, mode: AutoCompact, delay: str | None) -> str:
    """Return the status of a conversation: its thread, how full its window is, and the newest compaction."""
    full = pressure.limits.full
    lines = [
        f"Thread {known.thread_id}: {items} items in {known.tip.turn} turns.",
        f"Window: {pressure.tokens:,} of {full:,} tokens ({pressure.tokens * 100 // max(1, full)} %); "
        f"automatic compaction is {mode}, its limit {pressure.limits.hard:,}.",
    ]
    if delay is not None:
        lines.append(f"A compaction is due and waits: {delay}.")
    if known.active is None:
        lines.append("Not compacted so far.")
    else:
        figures = known.active.checkpoint.figures
        lines.append(
            f"Compacted at #{known.active.ordinal} ({known.active.checkpoint.strategy}): "
            f"{figures.get('tokens_before', 0):,} → {figures.get('tokens_after', 0):,} tokens."
        )
    return "\n".join(lines)


def render_help(rules: Rules, *, misunderstood: str | None) -> str:
    """Return the list of commands, under the names they have here."""
    lines = []
    if misunderstood and misunderstood.lower() not in VERBS:
        meant = guess_verb(misunderstood)
        lines.append(f"{misunderstood!r} is not a command." + (f" Did you mean {meant!r}?" if meant else ""))
    lines.append("Commands for the gateway; the model never sees them:")
    for name in rules.commands.control:
        lines.extend(f"{name} {usage}" for usage in USAGES)
    lines.extend(f"{name} [FOCUS]: the same as compact" for name in rules.commands.compact)
    return "\n".join(lines)


async def note_text(thread: Thread, text: str | None, *, name: str) -> str:
    """Record a note for the agent, and return the answer.

    Raises:
        BadInput: It is too long, or no text.
    """
    if not text:
        return f"Say what to note: `{name} note Ask Ruth before you release.`"
    remarked = await thread.note(text)
    return f"Noted as #{remarked.record}. It stands in the session state from the next compaction on."


async def pin_text(thread: Thread, what: str | None, *, name: str) -> str:
    """Record a pinned note, or pin entries of the session state; return the answer.

    Raises:
        BadInput: It is too long, or no text.
        EntryNotFound: The session state has no such entry.
    """
    if not what:
        return f"Say what to pin: `{name} pin Never push to main.`, or `{name} pin #12` for what the session state has from #12."
    if _pointer.fullmatch(what):
        return await _change_pins(thread, what, pin=True)
    remarked = await thread.note(what, pinned=True)
    return (
        f"Pinned as #{remarked.record}. It stands in the session state from the next compaction on, and no compaction drops it.\n"
        f"`{name} unpin #{remarked.record}` lets go of it."
    )


async def unpin_text(thread: Thread, what: str | None, *, name: str) -> str:
    """Unpin entries of the session state, and return the answer.

    Raises:
        EntryNotFound: The session state has no such entry.
    """
    if not what or not _pointer.fullmatch(what):
        return f"Say which pin to let go of by its number: `{name} unpin #12`"
    return await _change_pins(thread, what, pin=False)


async def _change_pins(thread: Thread, what: str, *, pin: bool) -> str:
    """Pin or unpin one entry by its id, or all entries that have a record as their source."""
    ledger = await thread.state()
    sourced = [entry.id for entry in ledger.entries if what in {f"#{source.ordinal}" for source in entry.sources}]
    change = thread.pin if pin else thread.unpin
    lines = []
    for entry_id in sourced or [what]:
        remarked = await change(entry_id)
        already = "" if remarked.record is not None else "already "
        record = "" if remarked.record is None else f" (#{remarked.record})"
        became = f"{already}pinned" if pin else f"{'not' if already else 'no longer'} pinned"
        lines.append(f"Entry {entry_id} is {became}{record}: {remarked.entries[0].text}")
    return "\n".join(lines)
