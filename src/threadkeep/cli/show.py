"""`threadkeep show`: an overview of a thread, its window, its records, its state, its tree, and a plot of its size."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.compact import BILL_COLUMNS, format_bill
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.state_output import print_entries, show_state
from threadkeep.cli.store import open_existing_store
from threadkeep.client import Thread, Threadkeep
from threadkeep.client.json_output import encode_window
from threadkeep.compaction import Ledger, Section
from threadkeep.compaction.run import FailedAttempts, find_newest_failed_attempts
from threadkeep.store import Record, ThreadRow
from threadkeep.threads import Attempt, EntryKind, sum_attempts
from threadkeep.threads.pressure import measure_recorded_pressure
from threadkeep.threads.reader import load_current_turn, load_live_path
from threadkeep.threads.summary import find_title
from threadkeep.tokens import Pressure
from threadkeep.viewer.compaction_diff import HEADINGS, Position, list_positions
from threadkeep.viewer.compaction_reader import CompactionRow, number_compactions, read_compaction_row
from threadkeep.viewer.number_format import format_age, format_count, format_share
from threadkeep.viewer.record_lines import describe_record
from threadkeep.viewer.size_history import SizeHistory, draw_bars, read_size_history
from threadkeep.viewer.thread_tree import Relative, find_tree

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Part, Row, Screen

CHECKPOINTS_SHOWN = 8
# By the tone of a line.
STYLES = {
    "person": "bold green",
    "model": "",
    "call": "cyan",
    "output": "dim",
    "turn": "dim",
    "aside": "dim",
    "note": "yellow",
    "change": "yellow",
    "checkpoint": "bold magenta",
}
# Enough to recognise the session; `--state` lists all entries.
ENTRIES_SHOWN = {Section.OBJECTIVE: 3, Section.ACTIVE: 5, Section.INACTIVE: 2, Section.HANDOFF: 3, Section.EVIDENCE: 0}
PLOT_ROWS = 12
# A wider plot says nothing more; a narrower one is not worth drawing.
MOST_PLOT_COLUMNS, FEWEST_PLOT_COLUMNS = 100, 20


async def run(args: Namespace) -> None:
    """Show what was asked for; by default an overview for people and the window for machines."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        match args.look:
            case "records":
                await _show_records(tk, thread, as_json=args.json)
            case "state":
                await show_state(thread, as_json=args.json)
            case "tree":
                await show_tree(tk, thread, as_json=args.json)
            case "plot":
                await _show_plot(tk, thread, as_json=args.json)
            case None if not args.json:
                await _show_overview(tk, thread)
            case _:
                await _show_window(tk, thread, as_json=args.json)


async def _show_window(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print what the model sees next; as JSON, every item with the bytes it is sent with."""
    if as_json:
        print_json(await encode_window(thread))
        return
    history = await thread.history()
    screen = open_screen()
    since = f", checkpoint #{history.checkpoint_ordinal} and what came after it" if history.checkpoint else ""
    pressure = await measure_recorded_pressure(tk.backend, thread.id)
    size = f"{len(history.entries):,} items, {pressure.tokens:,} of {pressure.limits.full:,} tokens with system text and tools"
    screen.write((thread.id, "bold"), f"  {size}{since}")
    screen.skip_line()
    rows = [_make_window_row(position) for position in list_positions(history, thread.dialect)]
    screen.write_table([">record", "what", ">tokens", "text"], rows)
    if history.checkpoint:
        screen.write((f"`threadkeep show {thread.id} --state` lists the entries of the session state", "dim"))


def _make_window_row(position: Position) -> Row:
    record: Part = (f"#{position.source.ordinal}" if position.source else "", "dim")
    # What a person said is quoted, not cut to a line.
    is_cut = position.kind == EntryKind.STUB and position.line.tone != "person"
    who = "stub" if is_cut else position.line.who
    return [record, (who, STYLES[position.line.tone]), f"{position.tokens:,}", position.line.text]


async def _show_records(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print every record of the thread itself; the history before a fork is in its parent."""
    records = await thread.records()
    path = await load_live_path(tk.backend.store, thread.id, whole=True)
    live = {record.ordinal for record in records if path.find_thread(record.ordinal) == thread.id}
    if as_json:
        print_json({"thread": thread.id, "records": [_encode_record(record, live=record.ordinal in live) for record in records]})
        return
    screen = open_screen()
    rows = [_make_record_row(thread, record, is_live=record.ordinal in live) for record in records]
    screen.write_table([">record", "when", ">turn", "what", ">tokens", "text"], rows)
    if abandoned := len(records) - len(live):
        screen.write((f"{format_count(abandoned, 'record')} in parentheses: taken back by a rollback, still readable", "dim"))


def _make_record_row(thread: Thread, record: Record, *, is_live: bool) -> Row:
    line = describe_record(record, thread.dialect)
    return [
        (f"#{record.ordinal}", "" if is_live else "dim strike"),
        (_format_time(record.at_ms), "dim"),
        f"{record.turn}",
        (line.who, STYLES[line.tone]) if is_live else (f"({line.who})", "dim"),
        f"{record.tokens:,}" if record.tokens else "",
        (line.text, "" if is_live else "dim"),
    ]


def _format_time(at_ms: int) -> str:
    """Return a moment in local time."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _encode_record(record: Record, *, live: bool) -> dict[str, object]:
    return {
        "ordinal": record.ordinal,
        "kind": record.kind,
        "at_ms": record.at_ms,
        "turn": record.turn,
        "tokens": record.tokens,
        "live": live,
        "body": _encode_body(record.body),
    }


def _encode_body(body: bytes) -> object:
    """Return a body as the JSON it is, byte for byte, or as text where it is none."""
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
    return msgspec.Raw(body)


async def _show_overview(tk: Threadkeep, thread: Thread) -> None:
    """Print what a thread is about, how full its window is, what compacted it, and what its state says."""
    store = tk.backend.store
    row = await store.get(thread.id)
    turns = await load_current_turn(store, row, stop=row.next)
    pressure = await measure_recorded_pressure(tk.backend, thread.id)
    path = await load_live_path(store, thread.id, whole=True)
    places = await number_compactions(store, thread.id)
    compactions = [await read_compaction_row(store, place) for place in reversed(places[-CHECKPOINTS_SHOWN:])]
    failed = await find_newest_failed_attempts(store, path, most=CHECKPOINTS_SHOWN)
    ledger = await thread.state()
    screen = open_screen()
    screen.write_cut((row.id, "bold green"), f"  {await find_title(store, row)}")
    _print_facts(screen, row, turns=turns)
    _print_pressure(screen, pressure)
    _print_compactions(screen, compactions, more=len(places) > len(compactions))
    _print_model_calls(screen, compactions, failed)
    if any(place.is_in_use for place in places):
        _print_state(screen, ledger)
    screen.skip_line()
    screen.write((f"more: threadkeep show {row.id} --window | --state | --records | --tree | --plot", "dim"))


def _print_facts(screen: Screen, row: ThreadRow, *, turns: int) -> None:
    facts = [row.dialect, format_count(turns, "turn"), format_count(row.next - row.start, "record")]
    if row.parent is not None:
        facts.append(f"forked from {row.parent} at #{row.start}")
    facts.append(f"written {format_age(row.updated_at_ms, time.time_ns() // 1_000_000)}")
    screen.write((" · ".join(facts), "dim"))
    screen.skip_line()


def _print_pressure(screen: Screen, pressure: Pressure) -> None:
    tokens, limits = pressure.tokens, pressure.limits
    style = "red" if pressure.must_compact else "yellow" if pressure.worth_preparing else "green"
    caption = f"{tokens:,} of {limits.full:,} tokens ({format_share(tokens, limits.full)})"
    screen.draw_bar("window  ", tokens, of=limits.full, caption=caption, style=style)
    if pressure.must_compact:
        screen.write((f"a compaction is due: the limit is {limits.hard:,} tokens", "red"))


def _print_compactions(screen: Screen, compactions: list[CompactionRow], *, more: bool) -> None:
    if not compactions:
        screen.write_heading("Checkpoints", "none; the window is the whole history")
        return
    screen.write_heading("Checkpoints")
    rows = [_make_compaction_row(each) for each in compactions]
    screen.write_table([">record", ">turn", "strategy", ">before", ">after", ">shed", ">kept", ">repaired", ""], rows)
    if more:
        screen.write(("older ones are in `show --records`", "dim"), indent=2)


def _make_compaction_row(each: CompactionRow) -> Row:
    record, is_current = each.place.record, each.place.is_in_use
    status: Part = ("undone", "yellow") if each.place.is_undone else ("current", "magenta") if is_current else ""
    place: list[Part] = [(f"#{record.ordinal}", "bold magenta" if is_current else "dim"), f"{record.turn}"]
    if each.made is None:
        return [*place, ("erased" if record.erased else "unreadable", "yellow"), "", "", "", "", "", status]
    before, after = (each.made.figures.get(name, 0) for name in ("tokens_before", "tokens_after"))
    audit: list[Part] = ["", ""]
    if each.audit is not None:
        repaired = len(each.audit.repaired)
        audit = [f"{each.audit.kept:,} of {each.audit.required:,}", (f"{repaired:,}", "yellow" if repaired else "dim")]
    fell_back = f" after {each.made.fell_back_from}" if each.made.fell_back_from else ""
    shed: Part = (f"-{format_share(before - after, before)}", "green")
    return [*place, f"{each.made.strategy}{fell_back}", f"{before:,}", f"{after:,}", shed, *audit, status]


def _print_model_calls(screen: Screen, compactions: list[CompactionRow], failed: list[FailedAttempts]) -> None:
    """Print the compactions that asked a model, newest first, whether a checkpoint came of it or not."""
    asked: list[tuple[int, str, list[Attempt]]] = [
        (each.place.record.ordinal, "checkpoint", each.made.attempts)
        for each in compactions
        if each.made is not None and sum_attempts(each.made.attempts).calls
    ]
    asked += [(each.record.ordinal, each.tried.outcome, each.tried.attempts) for each in failed]
    if not asked:
        return
    rows: list[list[Part]] = [
        [
            (f"#{ordinal}", "dim"),
            ", ".join(attempt.strategy for attempt in attempts) or "nothing",
            (outcome, "" if outcome == "checkpoint" else "yellow"),
            *format_bill(sum_attempts(attempts)),
        ]
        for ordinal, outcome, attempts in sorted(asked, key=lambda each: -each[0])[:CHECKPOINTS_SHOWN]
    ]
    screen.write_heading("Models asked to compact", "cost and outcome")
    screen.write_table([">record", "tried", "outcome", *BILL_COLUMNS], rows)


def _print_state(screen: Screen, ledger: Ledger) -> None:
    for section, shown in ENTRIES_SHOWN.items():
        entries = ledger.section(section)
        if entries:
            cut = f", the newest {shown}" if len(entries) > shown > 0 else ""
            screen.write_heading(HEADINGS[section], f"{len(entries):,}{cut}")
            print_entries(screen, entries[-shown:] if shown else ())


async def show_tree(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print the whole tree the thread stands in, from its oldest ancestor on."""
    tree = await find_tree(tk.backend.store, thread.id)
    if as_json:
        print_json({"thread": thread.id, "threads": [_encode_relative(relative) for relative in tree]})
    else:
        _print_tree(open_screen(), tree, here=thread.id)


def _encode_relative(relative: Relative) -> dict[str, object]:
    row, edge = relative.row, relative.edge
    shown: dict[str, object] = {
        "id": row.id,
        "parent": row.parent,
        "at": relative.at,
        "depth": relative.depth,
        "title": relative.title,
    }
    return shown | {"spawned_by": edge.parent, "status": edge.status, "name": edge.name} if edge else shown


def _print_tree(screen: Screen, tree: list[Relative], *, here: str) -> None:
    goes_on: list[bool] = []
    for relative in tree:
        del goes_on[relative.depth :]
        lines = "".join("│  " if more else "   " for more in goes_on[1:])
        branch = "" if not relative.depth else "└─ " if relative.is_last else "├─ "
        goes_on.append(not relative.is_last)
        edge, is_here = relative.edge, relative.row.id == here
        screen.write_cut(
            (lines + branch, "dim"),
            (relative.row.id, "bold green" if is_here else "bold"),
            (f"  from #{relative.at}" if relative.at is not None else "", "dim"),
            (f"  {edge.name or 'sub-agent'}, {edge.status}" if edge else "", "cyan"),
            ("  this one" if is_here else "", "green"),
            f"  {relative.title}",
        )


async def _show_plot(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print the plot; as JSON, the points behind it."""
    series = await read_size_history(tk, thread)
    if as_json:
        print_json({"thread": thread.id, **asdict(series)})
        return
    screen = open_screen()
    screen.write((thread.id, "bold green"), f"  tokens in the window over {format_count(series.upto, 'record')}")
    screen.skip_line()
    if not any(series.window):
        screen.write("nothing was recorded yet")
        return
    _draw_plot(screen, series)
    screen.skip_line()
    screen.write((f"{format_count(len(series.compactions), 'compaction')}; `threadkeep show {thread.id}` lists them", "dim"))


def split_columns(series: SizeHistory, *, width: int) -> tuple[list[int], set[int]]:
    """Return the largest window in each of `width` even stretches of a thread's life, and which of them hold a compaction.

    A stretch without records is as large as the one before it.
    """
    last = max(1, series.upto - 1)

    def find_column(ordinal: int) -> int:
        return min(width - 1, ordinal * width // (last + 1))

    heights = [-1] * width
    for ordinal, window in zip(series.ordinals, series.window, strict=True):
        if window is not None:
            at = find_column(ordinal)
            heights[at] = max(heights[at], window)
    before = 0
    for at, height in enumerate(heights):
        heights[at] = before if height < 0 else height
        before = heights[at]
    return heights, {find_column(ordinal) for ordinal, *_ in series.compactions}


def choose_scale(highest: int, *, limit: int) -> tuple[int, dict[int, str]]:
    """Return the number of tokens at the top of the plot, and a label for some of its rows, the highest being 0.

    The plot is as high as the limit. It is higher where the window was, with the limit at least a row below its top, and lower
    where a distant limit would flatten it.
    """
    if highest * 4 < limit:
        top = highest
    elif highest <= limit:
        top = limit
    else:
        top = max(highest, -(-limit * PLOT_ROWS // (PLOT_ROWS - 1)))
    labels = {0: f"{top:,}", PLOT_ROWS // 2: f"{top // 2:,}"}
    if limit <= top:
        labels[PLOT_ROWS - round(limit * PLOT_ROWS / top)] = f"limit {limit:,}"
    return top, labels


def _draw_plot(screen: Screen, series: SizeHistory) -> None:
    highest = max(size for size in series.window if size is not None)
    top, labels = choose_scale(highest, limit=series.limits["hard"])
    margin = max(map(len, labels.values())) + 2
    width = max(FEWEST_PLOT_COLUMNS, min(MOST_PLOT_COLUMNS, screen.console.width - margin - 2))
    heights, compacted = split_columns(series, width=width)
    blocks, tick, edge, corner, mark, line = (" ▁▂▃▄▅▆▇█", *"┤│└▲─") if screen.is_unicode else (" .:#", *"||+^-")
    for at, row in enumerate(draw_bars(heights, top=top, rows=PLOT_ROWS, blocks=blocks)):
        label = labels.get(at, "")
        screen.write((f"{label:>{margin}} ", "dim"), (tick if label else edge, "dim"), (row.rstrip(), "green"))
    marks = "".join(mark if at in compacted else line for at in range(width))
    screen.write((f"{'0':>{margin}} ", "dim"), (corner, "dim"), (marks, "magenta"))
    first, last = f"#{series.ordinals[0]:,}", f"#{series.upto - 1:,}"
    screen.write((" " * (margin + 2) + first + last.rjust(width - len(first)), "dim"))
