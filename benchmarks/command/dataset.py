"""`python -m benchmarks dataset`: recall over other people's long conversations, from files you have."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from pathlib import Path

from benchmarks.datasets.formats import load
from benchmarks.datasets.run import run_dataset, table
from threadkeep.cli.output import open_screen, print_json


def run(args: Namespace) -> int:
    """Measure and print. The files stay where they are, and nothing of them is kept."""
    talks = load(args.form, Path(args.path))[: args.limit]
    found = asyncio.run(run_dataset(args.form, talks, say=_say))
    if args.json:
        print_json(found.as_json())
        return 0
    screen = open_screen()
    screen.line((f"bench dataset {args.form}", "bold"), f"  {found.conversations} conversations, {found.messages:,} messages")
    screen.line(
        f"{found.history_tokens:,} tokens of history, {found.window_tokens:,} of windows after {found.compactions} compactions; "
        f"{found.without_evidence} questions without evidence were not asked",
        indent=2,
    )
    shown = table(found)
    screen.heading(shown.title, shown.aside)
    screen.table(shown.columns, shown.rows, indent=2)
    return 0


def _say(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)
