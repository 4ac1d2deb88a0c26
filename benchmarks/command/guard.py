"""`python -m benchmarks guard`: whether a change changed a count nobody meant to change."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path

from benchmarks.guard.counts import changed, counts, expected_file, read_expected, write_expected
from threadkeep.cli.output import open_screen, print_json


def run(args: Namespace) -> int:
    """Count, and say what is not as expected: exit 1 if anything is; with `--write` it becomes what is expected, and exit 0."""
    file = expected_file() if args.expected is None else Path(args.expected)
    was = read_expected(file)
    found = asyncio.run(counts(say=_say))
    lines = changed(was, found)
    if args.write:
        write_expected(found, file)
    if args.json:
        print_json({"ok": not lines, "changed": lines, "counts": found})
    else:
        screen = open_screen()
        screen.line(f"{sum(map(len, found.values()))} counts, {len(lines)} changed{', written' if args.write and lines else ''}")
        for line in lines:
            screen.line(line, indent=2)
    return 1 if lines and not args.write else 0


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)
