"""What can be seen while the demo plays: a live picture in a terminal, one line a compaction anywhere else."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from threadkeep.demo.proof import Compaction

BLOCKS = " ▁▂▃▄▅▆▇█"
MARK = "▲"
PLOT_ROWS = 5
PLOT_COLUMNS = 96
BAR_COLUMNS = 44
SECONDS_BETWEEN_FRAMES = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Where the session is: the size of every request the provider received, and which of them a compaction came before."""

    turn: int
    turns: int
    sizes: Sequence[int]
    compactions: Sequence[Compaction]
    window_tokens: int
    sent_tokens: int
    sent_in_all: int
    received_in_all: int


class Screen(Protocol):
    """Is told how the session goes on."""

    def show(self, moment: Moment) -> None: ...

    def compacted(self, compaction: Compaction, *, number: int, turns: int) -> None: ...


@contextmanager
def screen_on(console: Console) -> Iterator[Screen]:
    """Return the screen that suits where the output goes; a live picture is gone when the block is left."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _Picture(live)


def plot(sizes: Sequence[int], *, limit: int, marks: Collection[int], columns: int, rows: int = PLOT_ROWS) -> list[str]:
    """Return sizes over time as rows of text, the top row at `limit`, and a last row that marks the given positions."""
    width = min(columns, len(sizes))
    bounds = [place * len(sizes) // width for place in range(width + 1)] if width else [0]
    spans = list(pairwise(bounds))
    eighths = [max(sizes[start:stop]) * rows * 8 // max(1, limit) for start, stop in spans]
    drawn = ["".join(BLOCKS[max(0, min(8, height - row * 8))] for height in eighths) for row in range(rows - 1, -1, -1)]
    marked = "".join(MARK if any(start <= mark < stop for mark in marks) else " " for start, stop in spans)
    return [*drawn, marked]


def context_plot(moment: Moment, *, columns: int) -> Text:
    """Return the plot of the context, with its scale beside it."""
    marks = {compaction.request for compaction in moment.compactions}
    *rows, marked = plot(
        moment.sizes, limit=moment.window_tokens, marks=marks, columns=min(columns - len(_scale(0)) - 4, PLOT_COLUMNS)
    )
    text = Text()
    for number, row in enumerate(rows):
        scale = moment.window_tokens if number == 0 else 0 if number == len(rows) - 1 else None
        text.append(f"  {_scale(scale)} ", style="dim").append(f"{row}\n", style="cyan")
    return text.append(f"  {_scale(None)} ").append(marked, style="yellow")


class _Lines:
    """Plain lines, for a log."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, moment: Moment) -> None:
        """Leave the log to what happened; where the session is, the lines of `compacted` tell."""

    def compacted(self, compaction: Compaction, *, number: int, turns: int) -> None:
        cause = "/compact, typed by the user" if compaction.by_command else "automatic"
        self._console.print(
            f"  turn {compaction.turn + 1:>3} of {turns}  compaction {number:>2}  "
            f"{compaction.tokens_before:>6,} -> {compaction.tokens_after:>6,} tokens  ({cause})",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


class _Picture:
    """A picture that is drawn again as the session goes on."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._drawn_at = 0.0

    def show(self, moment: Moment) -> None:
        now = time.perf_counter()
        if now - self._drawn_at >= SECONDS_BETWEEN_FRAMES or moment.turn == moment.turns:
            self._live.update(self._drawn(moment), refresh=True)
            self._drawn_at = now

    def compacted(self, compaction: Compaction, *, number: int, turns: int) -> None:
        """Nothing beyond the picture: the next frame shows it."""

    def _drawn(self, moment: Moment) -> RenderableType:
        size = moment.sizes[-1] if moment.sizes else 0
        figures = Table.grid(padding=(0, 2))
        figures.add_row("  turns", _bar(moment.turn, moment.turns, "green"), f"{moment.turn} of {moment.turns}")
        figures.add_row("  context", _bar(size, moment.window_tokens, "cyan"), f"{size:,} of {moment.window_tokens:,} tokens")
        figures.add_row("", "", "")
        figures.add_row(
            "  the client sends", Text(f"{moment.sent_tokens:,} tokens", style="bold"), f"{moment.sent_in_all:,} so far"
        )
        figures.add_row("  the model receives", Text(f"{size:,} tokens", style="bold"), f"{moment.received_in_all:,} so far")
        calls = sum(compaction.model_calls for compaction in moment.compactions)
        figures.add_row("  compactions", Text(str(len(moment.compactions)), style="bold yellow"), f"{calls} model calls for them")
        heading = Text("\n  context size, request by request; ▲ is a compaction\n", style="dim")
        return Group(figures, heading, context_plot(moment, columns=self._live.console.width))


def _bar(done: int, total: int, style: str) -> ProgressBar:
    return ProgressBar(total=max(1, total), completed=done, width=BAR_COLUMNS, complete_style=style, finished_style=style)


def _scale(tokens: int | None) -> str:
    return f"{'' if tokens is None else f'{tokens:,}':>7} "
