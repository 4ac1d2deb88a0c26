"""What the commands share: where output goes, progress on stderr, and tables on the screen."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.gateway.contenders import OTHERS
from benchmarks.tables import list_targets
from threadkeep.errors import BadInput

if TYPE_CHECKING:
    from benchmarks.result import Target
    from benchmarks.tables import Table
    from threadkeep.cli.terminal import Part, Screen

STYLES = {"met": "green", "missed": "bold red", "not told": "yellow", "not run": "yellow"}


def say(text: str) -> None:
    """Report progress on stderr."""
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


def check_output(args: Namespace) -> Path | None:
    """Return the file that `--output` names.

    Raises:
        BadInput: Its folder does not exist.
    """
    if args.output is None:
        return None
    output = Path(args.output)
    if not output.parent.is_dir():
        raise BadInput(f"there is no folder {str(output.parent)!r} to write {output.name!r} into")
    return output


def write_output(output: Path | None, value: object) -> None:
    """Write a JSON object in one go, so that no reader ever sees half of it."""
    if output is not None:
        partial = output.with_name(f"{output.name}.part")
        partial.write_bytes(msgspec.json.encode(value) + b"\n")
        partial.replace(output)


def print_tables(screen: Screen, tables: Iterable[Table]) -> None:
    for table in tables:
        screen.write_heading(table.title, table.aside)
        screen.write_table(table.columns, table.rows, indent=2)


def print_targets(screen: Screen, targets: Sequence[Target]) -> None:
    screen.write_heading("Targets", "ratios count, not seconds; not told where the run is too short for the bound")
    rows: list[list[Part]] = [
        [(verdict, STYLES[verdict]), found, bound, what] for verdict, found, bound, what in list_targets(targets)
    ]
    screen.write_table(["", "found", "bound", "what"], rows, indent=2)


def parse_proxies(texts: Sequence[str]) -> dict[str, str]:
    """Return the interpreter of each proxy that is written `NAME=PYTHON`.

    Raises:
        BadInput: There is no such proxy, or no interpreter behind its name.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, python = text.partition("=")
        if name not in OTHERS or not python:
            raise BadInput(f"{text!r} names no proxy; write NAME=PYTHON, where NAME is {' or '.join(OTHERS)}")
        found[name] = python
    return found
