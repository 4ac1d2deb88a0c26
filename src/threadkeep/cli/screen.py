"""What people see. Every text passes through here, and is cleaned here, whatever transcript it came from."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from threadkeep.cli.cleaning import clean

Part = str | tuple[str, str]
"""A piece of text, or one with a style. Neither is ever read as markup."""

BAR_CELLS = 32
# Narrower than this, a paragraph beside its name is harder to read than one that runs over the edge.
MIN_PARAGRAPH = 24


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the pipe's end be known: `main` decides what it means."""
        raise BrokenPipeError


class Screen:
    """A terminal, or a file that stands in for one. Readable without colour."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, TextIOWrapper):
            # A terminal that cannot show a character shows a question mark; it does not end the command.
            sys.stdout.reconfigure(errors="replace")
        self.console: Console = _Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        self._full, self._empty = ("█", "░") if self.console.encoding.startswith("utf") else ("#", ".")

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Print a line; what does not fit goes on below, at the same indent."""
        self._hanging(Text(" " * indent), _text(parts))

    def whole_line(self, *parts: Part, indent: int = 0) -> None:
        """Print a line in one piece, however long it is: half an address leads nowhere."""
        self.console.print(Text.assemble(" " * indent, _text(parts)), no_wrap=True, crop=False, soft_wrap=True)

    def cut_line(self, *parts: Part) -> None:
        """Print a line and leave out what does not fit."""
        made = _text(parts)
        made.truncate(self.console.width, overflow="ellipsis")
        self.console.print(made, no_wrap=True)

    def gap(self) -> None:
        self.console.print()

    def heading(self, text: str, aside: str = "") -> None:
        """Print a heading after an empty line."""
        self.gap()
        self.line((text, "bold"), *((("  " + aside, "dim"),) if aside else ()))

    def bar(self, label: str, value: int, *, of: int, caption: str, style: str) -> None:
        """Print `value` as a share of `of`."""
        cells = min(BAR_CELLS, max(1 if value else 0, round(BAR_CELLS * value / of))) if of else 0
        self.line(label, (self._full * cells, style), (self._empty * (BAR_CELLS - cells), "dim"), "  ", caption)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Part]], *, indent: int = 0) -> None:
        """Print rows in columns, one line a row; a column named `>…` is flush right, the last one takes what width is left.

        Lines are made one by one: a table of a hundred thousand records begins at once and can be piped.
        """
        names = [name.removeprefix(">") for name in columns]
        lines = [[_text((cell,)) for cell in row] for row in rows]
        widths = [max(cell_len(name), *(line[at].cell_len for line in lines), 0) for at, name in enumerate(names)]
        for cells in ([Text(name, "dim") for name in names], *lines) if any(names) else lines:
            row = Text(" " * indent)
            for at, cell in enumerate(cells):
                if at == len(cells) - 1 and not columns[at].startswith(">"):
                    cell.truncate(max(8, self.console.width - row.cell_len), overflow="ellipsis")
                    row.append_text(cell)
                    break
                room = " " * (widths[at] - cell.cell_len)
                row.append_text(Text.assemble(room, cell) if columns[at].startswith(">") else Text.assemble(cell, room)).append(
                    "  "
                )
            row.rstrip()
            self.console.print(row, no_wrap=True, crop=False)

    def entries(self, rows: Sequence[tuple[Part, Sequence[Part]]]) -> None:
        """Print a name and a paragraph side by side, row after row; paragraphs wrap in their own column."""
        names = [_text((name,)) for name, _ in rows]
        width = max(name.cell_len for name in names)
        for name, (_, paragraph) in zip(names, rows, strict=True):
            self._hanging(Text.assemble("  ", name, " " * (width - name.cell_len + 2)), _text(paragraph))

    def quote(self, text: str, *, words: Sequence[str] = ()) -> None:
        """Print text with its own lines, indented, each of `words` marked."""
        quoted = Text(clean(text).strip("\n"))
        if words:
            pattern = "|".join(re.escape(word) for word in words)
            quoted.highlight_regex(re.compile(pattern, re.IGNORECASE), "bold yellow")
        for line in quoted.split("\n", allow_blank=True):
            self._hanging(Text("    "), line)

    def _hanging(self, prefix: Text, body: Text) -> None:
        """Print `body` wrapped beside `prefix`, which stands in its first line alone."""
        room = max(MIN_PARAGRAPH, self.console.width - prefix.cell_len)
        body.expand_tabs(8)
        for line in body.wrap(self.console, room) or [Text()]:
            line.rstrip()
            made = Text.assemble(prefix, line)
            made.rstrip()
            self.console.print(made, no_wrap=True, crop=False)
            prefix = Text(" " * prefix.cell_len)


def _text(parts: Sequence[Part]) -> Text:
    """Return parts as one line, whatever line ends and tabs a transcript put into them."""
    made = Text()
    for part in parts:
        words, style = (part, "") if isinstance(part, str) else part
        made.append(clean(words).replace("\n", " ").replace("\t", " "), style)
    return made
