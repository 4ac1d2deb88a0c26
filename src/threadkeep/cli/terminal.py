"""The screen people read. Every text is cleaned here, whatever transcript it came from."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from threadkeep.cli.safe_text import clean

Part = str | tuple[str, str]
"""A piece of text, or one with a style. Neither is ever read as markup."""
Row = Sequence[Part]
Entry = tuple[Part, Sequence[Part]]
"""A name and the paragraph beside it."""

BAR_CELLS = 32
# A narrower paragraph beside its name is harder to read than one that runs over the edge.
MIN_PARAGRAPH = 24


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise, so that `main` decides what a closed pipe means."""
        raise BrokenPipeError


class Screen:
    """A terminal, or a file in its place. Readable without colour."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, TextIOWrapper):
            # A terminal that cannot show a character shows a question mark; the command goes on.
            sys.stdout.reconfigure(errors="replace")
        self.console: Console = _Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        self.is_unicode = self.console.encoding.startswith("utf")

    def write(self, *parts: Part, indent: int = 0) -> None:
        """Print a line; what does not fit goes on below, at the same indent."""
        self._write_wrapped(Text(" " * indent), _join(parts))

    def write_uncut(self, *parts: Part, indent: int = 0) -> None:
        """Print a line in one piece, however long it is: half an address leads nowhere."""
        self.console.print(Text.assemble(" " * indent, _join(parts)), no_wrap=True, crop=False, soft_wrap=True)

    def write_cut(self, *parts: Part) -> None:
        """Print a line and leave out what does not fit."""
        line = _join(parts)
        line.truncate(self.console.width, overflow="ellipsis")
        self.console.print(line, no_wrap=True)

    def write_heading(self, text: str, aside: str = "") -> None:
        """Print a heading after an empty line."""
        self.skip_line()
        self.write((text, "bold"), *((("  " + aside, "dim"),) if aside else ()))

    def skip_line(self) -> None:
        self.console.print()

    def draw_bar(self, label: str, value: int, *, of: int, caption: str, style: str) -> None:
        """Print `value` as a share of `of`."""
        full, empty = ("█", "░") if self.is_unicode else ("#", ".")
        cells = min(BAR_CELLS, max(1 if value else 0, round(BAR_CELLS * value / of))) if of else 0
        self.write(label, (full * cells, style), (empty * (BAR_CELLS - cells), "dim"), "  ", caption)

    def draw_shrinkage(self, before: int, after: int) -> None:
        """Print two bars: the tokens of a window before a compaction and after it."""
        share = f"-{round(100 * (before - after) / before) if before else 0} %"
        self.draw_bar("before  ", before, of=before, caption=f"{before:>9,} tokens", style="yellow")
        self.draw_bar("after   ", after, of=before, caption=f"{after:>9,} tokens  {share}", style="green")

    def write_table(self, columns: Sequence[str], rows: Sequence[Row], *, indent: int = 0) -> None:
        """Print rows in columns, one line a row; a column named `>…` is flush right, the last one takes what width is left.

        Lines are made one by one: a table of a hundred thousand records begins at once and can be piped.
        """
        names = [name.removeprefix(">") for name in columns]
        lines = [[_join((cell,)) for cell in row] for row in rows]
        widths = [max(cell_len(name), *(line[at].cell_len for line in lines), 0) for at, name in enumerate(names)]
        for cells in ([Text(name, "dim") for name in names], *lines) if any(names) else lines:
            row = Text(" " * indent)
            for at, cell in enumerate(cells):
                flush_right = columns[at].startswith(">")
                if at == len(cells) - 1 and not flush_right:
                    cell.truncate(max(8, self.console.width - row.cell_len), overflow="ellipsis")
                    row.append_text(cell)
                    break
                space = " " * (widths[at] - cell.cell_len)
                row.append_text(Text.assemble(space, cell) if flush_right else Text.assemble(cell, space)).append("  ")
            row.rstrip()
            self.console.print(row, no_wrap=True, crop=False)

    def write_entries(self, entries: Sequence[Entry]) -> None:
        """Print a name and a paragraph side by side, entry after entry; paragraphs wrap in their own column."""
        names = [_join((name,)) for name, _ in entries]
        width = max((name.cell_len for name in names), default=0)
        for name, (_, paragraph) in zip(names, entries, strict=True):
            self._write_wrapped(Text.assemble("  ", name, " " * (width - name.cell_len + 2)), _join(paragraph))

    def write_quote(self, text: str, *, words: Sequence[str] = ()) -> None:
        """Print text with its own lines, indented, each of `words` marked."""
        quoted = Text(clean(text).strip("\n"))
        if words:
            pattern = "|".join(re.escape(word) for word in words)
            quoted.highlight_regex(re.compile(pattern, re.IGNORECASE), "bold yellow")
        for line in quoted.split("\n", allow_blank=True):
            self._write_wrapped(Text("    "), line)

    def _write_wrapped(self, prefix: Text, body: Text) -> None:
        """Print `body` wrapped beside `prefix`, which stands in its first line alone."""
        room = max(MIN_PARAGRAPH, self.console.width - prefix.cell_len)
        body.expand_tabs(8)
        for piece in body.wrap(self.console, room) or [Text()]:
            piece.rstrip()
            line = Text.assemble(prefix, piece)
            line.rstrip()
            self.console.print(line, no_wrap=True, crop=False)
            prefix = Text(" " * prefix.cell_len)


def _join(parts: Sequence[Part]) -> Text:
    """Return parts as one line, whatever line ends and tabs a transcript put into them."""
    line = Text()
    for part in parts:
        words, style = (part, "") if isinstance(part, str) else part
        line.append(clean(words).replace("\n", " ").replace("\t", " "), style)
    return line
