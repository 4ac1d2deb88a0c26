"""The command line: arguments in, output and an exit code out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import iscoroutine

from threadkeep.cli.commands import COMMANDS
from threadkeep.cli.parser import build_parser, parse

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a failure named on stderr, 2 usage, 130 interrupted.

    A reader that goes away (`| head`) ends it quietly.
    """
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output goes nowhere, or the interpreter would complain about it while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        build_parser(only="").print_help(sys.stderr)
        return USAGE
    try:
        args = parse(arguments)
    except SystemExit as stop:
        # argparse ends the process itself; only the script that calls `main` may do that.
        return stop.code if isinstance(stop.code, int) else USAGE
    from threadkeep.errors import ThreadkeepError

    module, _, function = COMMANDS[args.command].entry.partition(":")
    command = getattr(import_module(f"threadkeep.cli.{module}"), function)
    try:
        done = command(args)
        if iscoroutine(done):
            import asyncio

            done = asyncio.run(done)
    except ThreadkeepError as error:
        from threadkeep.cli.output import print_error

        print_error(error, as_json=args.json)
        return FAILED
    return DONE if done is None else done
