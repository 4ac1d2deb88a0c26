"""What the gateway answers to what a person says to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threadkeep.dialects import Dialect
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.commands import Command, Verb
from threadkeep.gateway.known import Known
from threadkeep.gateway.rules import AutoCompact, Rules
from threadkeep.hooks import HookRun, RunOutcome
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.branching import undo_compaction
from threadkeep.runtime.handle import Thread
from threadkeep.runtime.reports import CompactionReport
from threadkeep.tokens import Pressure

RECALLED = 5
FAILED: Final[Mapping[Verb, str]] = {"compact": "Not compacted", "undo": "Nothing was undone", "recall": "Not found"}


def told_compacted(report: CompactionReport) -> str:
    """Return a compaction's report as the person who asked for it reads it, with what hooks want seen and where they failed."""
    saved = 100 - report.tokens_after * 100 // max(1, report.tokens_before)
    counts = report.audit.counts()
    repaired = f"{counts['repaired']} of them were put back word for word" if counts["repaired"] else "all of them did"
    hooks = "".join(f"\n{line}" for run in report.hooks for line in _told_run(run))
    return (
        f"Compacted: {report.tokens_before:,} → {report.tokens_after:,} tokens ({saved} % smaller), "
        f"{report.model_calls} model calls.\n"
        f"{counts['required']} things had to survive; {repaired}.\n"
        f"Nothing is lost: `threadkeep recall {report.thread} WORDS` finds originals, "
        f"`threadkeep undo {report.thread}` takes this compaction back.{hooks}"
    )


def _told_run(run: HookRun) -> list[str]:
    said = [f"A hook says: {run.warning}"] if run.warning is not None and not run.quiet else []
    failed = run.outcome in (RunOutcome.FAILED, RunOutcome.TIMED_OUT)
    return [*said, *([f"The hook {run.name} failed and held nothing up: {run.message}"] if failed else [])]


def told_failed(command: Command, error: ThreadkeepError) -> str:
    """Return why what was asked for did not happen."""
    return f"{FAILED.get(command.verb, 'Not done')}: {error}"


def told_status(known: Known, pressure: Pressure, *, items: int, mode: AutoCompact) -> str:
    """Return how a conversation stands: its thread, how full its window is, and what was compacted."""
    full = pressure.limits.full
    lines = [
        f"Thread {known.thread_id}: {items} items in {known.tip.turn} turns.",
        f"Window: {pressure.tokens:,} of {full:,} tokens ({pressure.tokens * 100 // max(1, full)} %); "
        f"automatic compaction is {mode}, its limit {pressure.limits.hard:,}.",
    ]
    if known.standing is None:
        lines.append("Not compacted so far.")
    else:
        figures = known.standing.checkpoint.figures
        lines.append(
            f"Compacted at #{known.standing.ordinal} ({known.standing.checkpoint.strategy}): "
            f"{figures.get('tokens_before', 0):,} → {figures.get('tokens_after', 0):,} tokens."
        )
    return "\n".join(lines)


def told_help(rules: Rules, *, misunderstood: str | None) -> str:
    """Return which commands there are, under the names they have here."""
    compact, control = rules.commands.compact, rules.commands.control
    lines = [f"{misunderstood!r} is no command."] if misunderstood else []
    lines.append("Said to the gateway, and never shown to the model:")
    lines.extend(f"{name} [FOCUS]: compact this conversation now" for name in compact)
    for name in control:
        lines.append(f"{name} status: how full the window is")
        lines.append(f"{name} undo: take the newest compaction back")
        lines.append(f"{name} recall WORDS: find what was compacted away, or #N itself")
        lines.append(f"{name} help: this")
    return "\n".join(lines)


async def undone(backend: Backend, known: Known) -> str:
    """Take the newest compaction of a thread back, and say so.

    Raises:
        NothingToUndo: No checkpoint counts.
    """
    ordinal = await undo_compaction(backend, known.thread_id)
    return f"The compaction at #{ordinal} no longer counts; the conversation goes on as it was before it."


async def recalled(backend: Backend, known: Known, query: str | None, *, dialect: Dialect) -> str:
    """Return originals from a thread that answer a question or a pointer.

    Raises:
        RecordNotFound: The pointer names no record.
    """
    if not query:
        return "Say what to look for: words, or a record's number such as #12."
    hits = await Thread(backend, known.thread_id, dialect=dialect).recall(query, limit=RECALLED)
    if not hits:
        return f"Nothing in this conversation matches {query!r}."
    return "\n\n".join(f"{hit.pointer}\n{hit.text}" for hit in hits)
