"""`threadkeep show --plot`: the size of the window over the life of a thread."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread, Threadkeep
from threadkeep.viewer.formats import draw_bars, format_count
from threadkeep.viewer.size_history import SizeHistory, read_size_history

if TYPE_CHECKING:
    from threadkeep.cli.screen import Screen

ROWS = 12
# A wider plot says nothing more; a narrower one is not worth drawing.
MOST_COLUMNS, FEWEST_COLUMNS = 100, 20


async def show_plot(tk: Threadkeep, thread: Thread, *, as_json: bool) -> None:
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
    _draw(screen, series)
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
        top = max(highest, -(-limit * ROWS // (ROWS - 1)))
    labels = {0: f"{top:,}", ROWS // 2: f"{top // 2:,}"}
    if limit <= top:
        labels[ROWS - round(limit * ROWS / top)] = f"limit {limit:,}"
    return top, labels


def _draw(screen: Screen, series: SizeHistory) -> None:
    highest = max(size for size in series.window if size is not None)
    top, labels = choose_scale(highest, limit=series.limits["hard"])
    margin = max(map(len, labels.values())) + 2
    width = max(FEWEST_COLUMNS, min(MOST_COLUMNS, screen.console.width - margin - 2))
    heights, compacted = split_columns(series, width=width)
    blocks, tick, edge, corner, mark, line = (" ▁▂▃▄▅▆▇█", *"┤│└▲─") if screen.is_unicode else (" .:#", *"||+^-")
    for at, row in enumerate(draw_bars(heights, top=top, rows=ROWS, blocks=blocks)):
        label = labels.get(at, "")
        screen.write((f"{label:>{margin}} ", "dim"), (tick if label else edge, "dim"), (row.rstrip(), "green"))
    marks = "".join(mark if at in compacted else line for at in range(width))
    screen.write((f"{'0':>{margin}} ", "dim"), (corner, "dim"), (marks, "magenta"))
    first, last = f"#{series.ordinals[0]:,}", f"#{series.upto - 1:,}"
    screen.write((" " * (margin + 2) + first + last.rjust(width - len(first)), "dim"))
