"""`threadkeep show --plot`: how large the window was, over the life of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from threadkeep.cli.figures import count, share
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread, Threadkeep
from threadkeep.viewer.size_history import SizeHistory, read_size_history

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

ROWS = 12
# A plot wider than this says nothing more; a narrower one is not worth drawing.
MOST_COLUMNS, FEWEST_COLUMNS = 100, 20
COMPACTIONS_SHOWN = 12


async def show_plot(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
    """Print the plot and the compactions in it; as JSON, the points behind it."""
    series = await read_size_history(tk, thread)
    if as_json:
        print_json({"thread": thread.id, **asdict(series)})
        return
    screen = open_screen()
    screen.line((thread.id, "bold green"), f"  tokens in the window over {count(series.upto, 'record')}")
    screen.gap()
    if not any(series.window):
        screen.line("nothing was recorded yet")
        return
    _draw(screen, series)
    _tell_compactions(screen, series)


def columns_of(series: SizeHistory, *, width: int) -> tuple[list[int], set[int]]:
    """Return the largest window in each of `width` even stretches of a thread's life, and in which of them it was compacted.

    A stretch in which nothing was recorded is as large as the one before it.
    """
    last = max(1, series.upto - 1)
    heights = [-1] * width
    for ordinal, window in zip(series.ordinals, series.window, strict=True):
        if window is not None:
            at = _column(ordinal, last=last, width=width)
            heights[at] = max(heights[at], window)
    before = 0
    for at, height in enumerate(heights):
        heights[at] = before if height < 0 else height
        before = heights[at]
    return heights, {_column(ordinal, last=last, width=width) for ordinal, *_ in series.compactions}


def rows_of(heights: Sequence[int], *, top: int, rows: int, blocks: str) -> list[str]:
    """Return bars of these heights as text, the highest row first; `blocks` are its marks from empty to full."""
    full = len(blocks) - 1
    steps = [-(-height * rows * full // top) if top else 0 for height in heights]
    return ["".join(blocks[min(full, max(0, step - row * full))] for step in steps) for row in reversed(range(rows))]


def _column(ordinal: int, *, last: int, width: int) -> int:
    return min(width - 1, ordinal * width // (last + 1))


def scale_of(highest: int, *, limit: int) -> tuple[int, dict[int, str]]:
    """Return what the top of the plot stands for, and what is written beside which of its rows, the highest being 0.

    The plot is as high as the limit. It is higher where the window was, with the limit at least a row below its top, and lower
    where a limit far above what was ever reached would flatten it.
    """
    if highest * 4 < limit:
        top = highest
    elif highest <= limit:
        top = limit
    else:
        top = max(highest, -(-limit * ROWS // (ROWS - 1)))
    labels = {0: f"{top:,}", ROWS // 2: f"{top // 2:,}"}
    if limit <= top:
        labels[ROWS - round(limit * ROWS / top)] = f"limit {limit:,}"
    return top, labels


def _draw(screen: Screen, series: SizeHistory) -> None:
    highest = max(size for size in series.window if size is not None)
    top, labels = scale_of(highest, limit=series.limits["hard"])
    margin = max(map(len, labels.values())) + 2
    width = max(FEWEST_COLUMNS, min(MOST_COLUMNS, screen.console.width - margin - 2))
    heights, compacted = columns_of(series, width=width)
    plain = not screen.console.encoding.startswith("utf")
    for at, row in enumerate(rows_of(heights, top=top, rows=ROWS, blocks=" .:#" if plain else " ▁▂▃▄▅▆▇█")):
        label = labels.get(at, "")
        edge = "|" if plain else "┤" if label else "│"
        screen.line((f"{label:>{margin}} ", "dim"), (edge, "dim"), (row.rstrip(), "green"))
    marks = "".join(("^" if plain else "▲") if at in compacted else ("-" if plain else "─") for at in range(width))
    screen.line((f"{'0':>{margin}} ", "dim"), ("+" if plain else "└", "dim"), (marks, "magenta"))
    ends = f"#{series.ordinals[0]:,}", f"#{series.upto - 1:,}"
    screen.line((" " * (margin + 2) + ends[0] + ends[1].rjust(width - len(ends[0])), "dim"))


def _tell_compactions(screen: Screen, series: SizeHistory) -> None:
    if not series.compactions:
        screen.heading("Compactions", "none; the window is the whole history")
        return
    shown = series.compactions[-COMPACTIONS_SHOWN:]
    aside = f"{len(series.compactions):,}" + (f", the newest {len(shown)}" if len(shown) < len(series.compactions) else "")
    screen.heading("Compactions", aside)
    rows: list[list[Part]] = [
        [(f"#{ordinal}", "bold magenta"), f"{before:,}", f"{after:,}", (f"-{share(max(0, before - after), before)}", "green")]
        for ordinal, _, before, after in shown
    ]
    screen.table([">record", ">before", ">after", ">shed"], rows, indent=2)
