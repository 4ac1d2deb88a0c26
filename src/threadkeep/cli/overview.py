"""`threadkeep show`: a thread at a glance."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.attempts import BILL_COLUMNS, bill_cells
from threadkeep.cli.family import title_of
from threadkeep.cli.figures import ago, count, share
from threadkeep.cli.output import open_screen
from threadkeep.cli.state import HEADINGS, tell_entries
from threadkeep.client import Thread, Threadkeep, Window
from threadkeep.compaction import AuditReport, Ledger, Section
from threadkeep.compaction.failed_attempts import InVain, newest_in_vain
from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import Attempt, Checkpoint, LivePath, sum_attempts
from threadkeep.threads.reader import load_live_path, read_body

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

CHECKPOINTS_SHOWN = 8
# Enough to recognise the session; `--state` has all of them.
ENTRIES_SHOWN = {Section.OBJECTIVE: 3, Section.ACTIVE: 5, Section.INACTIVE: 2, Section.HANDOFF: 3, Section.EVIDENCE: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A checkpoint on the live path, and whether an undo took it back; without what it says where that cannot be read."""

    record: Record
    checkpoint: Checkpoint | None
    audit: AuditReport | None
    undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A compaction that asked a model: the record that says what it cost, and what became of it."""

    ordinal: int
    became: str
    attempts: list[Attempt]


async def show_overview(tk: Threadkeep, thread: Thread) -> None:
    """Print what a thread is about, how full its window is, what compacted it, and what it remembers."""
    store = tk.backend.store
    row = await store.get(thread.id)
    newest = await store.read(Span(thread_id=row.id, start=row.start, stop=row.next), newest_first=True, limit=1, bodies=False)
    title = await title_of(store, row)
    window = await thread.window()
    path = await load_live_path(store, thread.id, whole=True)
    made = await _checkpoints(store, path)
    in_vain = await newest_in_vain(store, path, most=CHECKPOINTS_SHOWN)
    ledger = await thread.state()
    screen = open_screen()
    _tell_head(screen, row, title=title, turns=newest[0].turn if newest else 0)
    _tell_window(screen, window)
    _tell_checkpoints(screen, made, newest=window.checkpoint)
    _tell_asked(screen, made, in_vain)
    if window.checkpoint is not None:
        _tell_state(screen, ledger)
    screen.gap()
    screen.line((f"more: threadkeep show {row.id} --window | --state | --records | --tree | --plot", "dim"))


async def _checkpoints(store: ThreadStore, path: LivePath) -> list[_Made]:
    """Return the newest checkpoints of a whole path, newest first."""
    found: list[Record] = []
    undone: set[int | None] = set()
    for span in path.spans:
        undone.update(record.target for record in await store.read(span, kinds={RecordKind.UNDO}, bodies=False))
        left = CHECKPOINTS_SHOWN + 1 - len(found)
        found.extend(await store.read(span, kinds={RecordKind.CHECKPOINT}, newest_first=True, limit=left) if left else [])
    return [_made(record, undone=record.ordinal in undone) for record in sorted(found, key=lambda each: -each.ordinal)]


def _made(record: Record, *, undone: bool) -> _Made:
    checkpoint = read_body(record, Checkpoint)
    try:
        audit = msgspec.json.decode(bytes(checkpoint.audit), type=AuditReport) if checkpoint else None
    except msgspec.MsgspecError:
        audit = None
    return _Made(record=record, checkpoint=checkpoint, audit=audit, undone=undone)


def _tell_head(screen: Screen, row: ThreadRow, *, title: str, turns: int) -> None:
    screen.cut_line((row.id, "bold green"), f"  {title}")
    facts = [row.dialect, count(turns, "turn"), count(row.next - row.start, "record")]
    if row.parent is not None:
        facts.append(f"forked from {row.parent} at #{row.start}")
    facts.append(f"written {ago(row.updated_at_ms, now_ms=time.time_ns() // 1_000_000)}")
    screen.line((" · ".join(facts), "dim"))
    screen.gap()


def _tell_window(screen: Screen, window: Window) -> None:
    tokens, limits = window.pressure.tokens, window.pressure.limits
    style = "red" if window.pressure.must_compact else "yellow" if window.pressure.worth_preparing else "green"
    caption = f"{tokens:,} of {limits.full:,} tokens ({share(tokens, limits.full)}) in {count(len(window), 'item')}"
    screen.bar("window  ", tokens, of=limits.full, caption=caption, style=style)
    if window.pressure.must_compact:
        screen.line((f"a compaction is due: the limit is {limits.hard:,} tokens", "red"))


def _tell_checkpoints(screen: Screen, made: list[_Made], *, newest: int | None) -> None:
    if not made:
        screen.heading("Checkpoints", "none; the window is the whole history")
        return
    screen.heading("Checkpoints")
    rows = [_row(each, counts=each.record.ordinal == newest) for each in made[:CHECKPOINTS_SHOWN]]
    columns = [">record", ">turn", "strategy", ">before", ">after", ">shed", ">kept", ">repaired", ""]
    screen.table(columns, rows, indent=2)
    if len(made) > CHECKPOINTS_SHOWN:
        screen.line(("older ones are in `show --records`", "dim"), indent=2)


def _row(each: _Made, *, counts: bool) -> list[Part]:
    fate: Part = ("undone", "yellow") if each.undone else ("the window's", "magenta") if counts else ""
    named: list[Part] = [(f"#{each.record.ordinal}", "bold magenta" if counts else "dim"), f"{each.record.turn}"]
    if each.checkpoint is None:
        gone: Part = ("erased" if each.record.erased else "cannot be read", "yellow")
        return [*named, gone, "", "", "", "", "", fate]
    before, after = (each.checkpoint.figures.get(name, 0) for name in ("tokens_before", "tokens_after"))
    audited: list[Part] = ["", ""]
    if each.audit is not None:
        repaired: Part = (f"{len(each.audit.repaired):,}", "yellow" if each.audit.repaired else "dim")
        audited = [f"{each.audit.kept:,} of {each.audit.required:,}", repaired]
    shed: Part = (f"-{share(before - after, before)}", "green")
    fell = f" after {each.checkpoint.fell_back_from}" if each.checkpoint.fell_back_from else ""
    return [*named, f"{each.checkpoint.strategy}{fell}", f"{before:,}", f"{after:,}", shed, *audited, fate]


def _tell_asked(screen: Screen, made: list[_Made], in_vain: list[InVain]) -> None:
    """Print what models were asked for, the newest first, whether a checkpoint came of it or not."""
    asked: list[_Asked] = [
        _Asked(ordinal=each.record.ordinal, became="checkpoint", attempts=each.checkpoint.attempts)
        for each in made
        if each.checkpoint is not None and sum_attempts(each.checkpoint.attempts).calls
    ]
    asked += [_Asked(ordinal=each.record.ordinal, became=each.tried.outcome, attempts=each.tried.attempts) for each in in_vain]
    if not asked:
        return
    rows: list[list[Part]] = [
        [
            (f"#{each.ordinal}", "dim"),
            ", ".join(attempt.strategy for attempt in each.attempts),
            (each.became, "" if each.became == "checkpoint" else "yellow"),
            *bill_cells(sum_attempts(each.attempts)),
        ]
        for each in sorted(asked, key=lambda each: -each.ordinal)[:CHECKPOINTS_SHOWN]
    ]
    screen.heading("Models asked to compact", "what it cost, and what came of it")
    screen.table([">record", "tried", "came to", *BILL_COLUMNS], rows, indent=2)


def _tell_state(screen: Screen, ledger: Ledger) -> None:
    for section, shown in ENTRIES_SHOWN.items():
        entries = ledger.section(section)
        if not entries:
            continue
        more = len(entries) > shown > 0
        screen.heading(HEADINGS[section], f"{len(entries):,}{f', the newest {shown}' if more else ''}")
        tell_entries(screen, entries[-shown:] if shown else ())
