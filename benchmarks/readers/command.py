"""The command line of the reader benchmark."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.readers.corpus import Skipped, Transcript, read_corpus
from benchmarks.readers.cuts import make_cuts
from benchmarks.readers.density import make_sheet, score_sheet, state_lines
from benchmarks.readers.drafts import make_draft_lines, open_answer
from benchmarks.readers.growth import NEW_TOKENS, RATCHET_AT, count_overruled, measure_growth, synthetic_transcript
from benchmarks.readers.sessions import FAMILIES, Size, make_session
from benchmarks.readers.table import print_tables
from benchmarks.readers.windows import make_lines, play_session
from threadkeep.tokens import estimate_text


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it is done, 1 on a named error."""
    args = build_parser().parse_args(argv)
    run: Callable[[argparse.Namespace], None] = args.run
    try:
        run(args)
    except (OSError, ValueError) as error:
        print(f"benchmarks.readers: {error}", file=sys.stderr)
        return 1
    return 0


def run_make(args: argparse.Namespace) -> None:
    """Write a line for `ask.py` per session and arm."""
    size = Size(turns=args.turns, compactions=args.compactions) if args.turns and args.compactions else None
    lines = []
    for seed in args.seeds:
        began = time.monotonic()
        session = make_session(args.family, seed=seed, size=size)
        played = asyncio.run(play_session(session, strategy=args.strategy))
        made = [line for line in make_lines(played, near=args.near) if not args.arms or line["arm"] in args.arms]
        lines += made
        sizes = "; ".join(f"{line['arm']} {estimate_text(line['ctx'])}" for line in made)
        print(f"{args.family} {seed}: {time.monotonic() - began:.1f} s; {sizes}; refused {played.refused}")
    _write(args.out, lines)


def run_drafts(args: argparse.Namespace) -> None:
    """Write a line for `score` per session without a model and with its drafts."""
    size = Size(turns=args.turns, compactions=args.compactions)
    sessions = [make_session(args.family, seed=seed, size=size) for seed in args.seeds]
    _write(args.out, asyncio.run(make_draft_lines(sessions, open_answer(args.model))))


def run_cuts(args: argparse.Namespace) -> None:
    """Write a line for `likelihood.py` per cut, and say what was skipped."""

    async def cut(transcript: Transcript) -> None:
        async for made in make_cuts(transcript, tokens=args.tokens, most=args.most):
            if isinstance(made, Skipped):
                print(f"skipped {made.name}: {made.reason}")
            elif args.half in (None, made["half"]):
                sizes = "; ".join(f"{arm} {estimate_text(text)}" for arm, text in made["arms"].items())
                print(f"{made['thread']} #{made['cut']} ({made['half']}): {sizes}")
                lines.append(made)

    lines: list[dict[str, Any]] = []
    for transcript in read_corpus(args.corpus):
        if isinstance(transcript, Skipped):
            print(f"skipped {transcript.name}: {transcript.reason}")
        else:
            asyncio.run(cut(transcript))
    _write(args.out, lines)


def run_ratchet(args: argparse.Namespace) -> None:
    """Print the window's tokens after some of many compactions of the same kind of work."""
    print(f"seed {args.seed}, {args.tokens:,} new tokens before each compaction: compactions, tokens")
    for compactions, tokens in asyncio.run(measure_growth(seed=args.seed, at=args.at, new_tokens=args.tokens)):
        print(f"{compactions:>5} {tokens:>8,}")


def run_overruled(args: argparse.Namespace) -> None:
    """Print how many independent rules a window shows as overruled."""
    sessions = [synthetic_transcript(seed=seed) for seed in args.seeds]
    real = read_corpus(args.corpus) if args.corpus else ()
    sessions += [each for each in real if isinstance(each, Transcript) and len(each.items) >= args.least_items]
    for transcript in sessions:
        for seed in args.seeds[:1] if transcript.name.startswith("frozen") else args.seeds:
            found = asyncio.run(count_overruled(transcript, seed=seed))
            counts = f"{len(found.overruled)} of {found.rules} rules shown as overruled, {found.missing} not in the window"
            print(f"{transcript.name}, rules {seed}: {counts}")
            for line in found.overruled:
                print(f"  {line[:140]}")


def run_lines(args: argparse.Namespace) -> None:
    """Write every line of the states of the corpus' sessions."""
    lines = []
    for transcript in read_corpus(args.corpus):
        if isinstance(transcript, Skipped):
            print(f"skipped {transcript.name}: {transcript.reason}")
            continue
        found = asyncio.run(state_lines(transcript))
        print(f"{transcript.name}: {len(found)} lines")
        lines += [{"build": args.build, **line} for line in found]
    _write(args.out, lines)


def run_sheet(args: argparse.Namespace) -> None:
    """Write a blind sheet of sampled lines and its key."""
    lines = [json.loads(line) for path in args.lines for line in path.read_text(encoding="utf-8").splitlines()]
    sheet, key = make_sheet(lines, per_session=args.per_session)
    args.out.write_text(sheet, encoding="utf-8")
    args.key.write_text(json.dumps(key, indent=1), encoding="utf-8")


def run_density(args: argparse.Namespace) -> None:
    """Print the share of useful and of false lines in a filled sheet."""
    key = json.loads(args.key.read_text(encoding="utf-8"))
    print(score_sheet(args.sheet.read_text(encoding="utf-8"), key))


def run_score(args: argparse.Namespace) -> None:
    """Ask the model; imported here because it needs torch."""
    from benchmarks.readers.model import score_files

    score_files(args.model, args.files, args.out)


def run_table(args: argparse.Namespace) -> None:
    """Print a table for each result."""
    print(print_tables(args.results))


def read_numbers(text: str) -> list[int]:
    """Return the numbers of `101-106` or `1,5,9`."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readers", description=__doc__)
    commands = parser.add_subparsers(required=True)
    make = commands.add_parser("make", help="play sessions; write their windows and questions")
    make.add_argument("--family", choices=FAMILIES, required=True)
    make.add_argument("--seeds", type=read_numbers, required=True, help="for example 101-106")
    make.add_argument("--out", type=Path, required=True)
    make.add_argument("--turns", type=int)
    make.add_argument("--compactions", type=int)
    make.add_argument("--strategy", default="extractive")
    make.add_argument("--arms", nargs="+", help="only these arms, by name")
    make.add_argument("--near", action="store_true", help="also ask with wrong options from the same session")
    make.set_defaults(run=run_make)

    drafts = commands.add_parser("drafts", help="play sessions without a model and with its drafts; needs torch")
    drafts.add_argument("model", type=Path, help="folder with model.gguf")
    drafts.add_argument("--family", choices=FAMILIES, required=True)
    drafts.add_argument("--seeds", type=read_numbers, required=True, help="for example 101-106")
    drafts.add_argument("--turns", type=int, default=30)
    drafts.add_argument("--compactions", type=int, default=5)
    drafts.add_argument("--out", type=Path, required=True)
    drafts.set_defaults(run=run_drafts)

    cuts = commands.add_parser("cuts", help="cut real sessions; write each arm and what the agent did next")
    cuts.add_argument("--corpus", type=Path, required=True)
    cuts.add_argument("--tokens", type=int, default=4_700)
    cuts.add_argument("--most", type=int, default=30, help="cuts of one session at most")
    cuts.add_argument("--half", choices=("build", "held"))
    cuts.add_argument("--out", type=Path, required=True)
    cuts.set_defaults(run=run_cuts)

    ratchet = commands.add_parser("ratchet", help="window tokens after many compactions of the same kind of work")
    ratchet.add_argument("--seed", type=int, default=201)
    ratchet.add_argument("--tokens", type=int, default=NEW_TOKENS, help="new work before each compaction")
    ratchet.add_argument("--at", type=read_numbers, default=list(RATCHET_AT))
    ratchet.set_defaults(run=run_ratchet)

    overruled = commands.add_parser("overruled", help="independent rules that a window shows as overruled")
    overruled.add_argument("--seeds", type=read_numbers, default=[301, 302])
    overruled.add_argument("--corpus", type=Path, help="also plant the rules in real sessions")
    overruled.add_argument("--least-items", type=int, default=100, help="leave out shorter real sessions")
    overruled.set_defaults(run=run_overruled)

    lines = commands.add_parser("lines", help="write the state lines of real sessions")
    lines.add_argument("--corpus", type=Path, required=True)
    lines.add_argument("--build", required=True, help="a name for this version of the package; kept out of the sheet")
    lines.add_argument("--out", type=Path, required=True)
    lines.set_defaults(run=run_lines)

    sheet = commands.add_parser("sheet", help="sample state lines into a blind sheet")
    sheet.add_argument("lines", type=Path, nargs="+")
    sheet.add_argument("--per-session", type=int, default=12)
    sheet.add_argument("--out", type=Path, required=True)
    sheet.add_argument("--key", type=Path, required=True)
    sheet.set_defaults(run=run_sheet)

    density = commands.add_parser("density", help="score a filled sheet")
    density.add_argument("sheet", type=Path)
    density.add_argument("key", type=Path)
    density.set_defaults(run=run_density)

    score = commands.add_parser("score", help="ask the model about windows or cuts; needs torch and transformers")
    score.add_argument("model", type=Path, help="folder with model.gguf")
    score.add_argument("files", type=Path, nargs="+")
    score.add_argument("--out", type=Path, required=True)
    score.set_defaults(run=run_score)

    table = commands.add_parser("table", help="print tables of results")
    table.add_argument("results", type=Path, nargs="+")
    table.set_defaults(run=run_table)
    return parser


def _write(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
