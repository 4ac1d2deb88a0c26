"""The command line of the reader benchmark."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.readers.sessions import FAMILIES, Size, make_session
from benchmarks.readers.windows import make_lines, play_session
from threadkeep.tokens import estimate_text


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it is done, 1 on a named error."""
    args = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], None] = args.run
    try:
        run(args)
    except (OSError, ValueError) as error:
        print(f"benchmarks.readers: {error}", file=sys.stderr)
        return 1
    return 0


def make_windows(args: argparse.Namespace) -> None:
    """Write a line for `ask.py` per session and arm."""
    size = Size(turns=args.turns, compactions=args.compactions) if args.turns and args.compactions else None
    with _opened(args.out) as out:
        for seed in args.seeds:
            began = time.monotonic()
            session = make_session(args.family, seed=seed, size=size)
            played = asyncio.run(play_session(session, strategy=args.strategy))
            sizes = []
            for line in make_lines(played, near=args.near):
                if args.arms and line["arm"] not in args.arms:
                    continue
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
                sizes.append(f"{line['arm']} {estimate_text(line['ctx'])}")
            print(f"{args.family} {seed}: {time.monotonic() - began:.1f} s; {'; '.join(sizes)}; refused {played.refused}")


def read_seeds(text: str) -> list[int]:
    """Return the seeds of `101-106` or `1,5,9`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _opened(path: Path):  # type: ignore[no-untyped-def]
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readers", description=__doc__)
    commands = parser.add_subparsers(required=True)
    make = commands.add_parser("make", help="play sessions and write their windows and questions")
    make.add_argument("--family", choices=FAMILIES, required=True)
    make.add_argument("--seeds", type=read_seeds, required=True, help="for example 101-106")
    make.add_argument("--out", type=Path, required=True)
    make.add_argument("--turns", type=int)
    make.add_argument("--compactions", type=int)
    make.add_argument("--strategy", default="extractive")
    make.add_argument("--arms", nargs="+", help="only these arms, by name")
    make.add_argument("--near", action="store_true", help="also ask with wrong options taken from the same session")
    make.set_defaults(run=make_windows)
    return parser
