"""The command line: arguments in, output and an exit code out."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

from threadkeep.cli.parser import COMMANDS, build_parser, parse
from threadkeep.errors import ThreadkeepError

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a failure that stderr names, 2 usage, 130 interrupted.

    A reader that goes away (`| head`) ends it quietly.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _answered(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered goes nowhere, or the interpreter would complain about it while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _answered(arguments: Sequence[str]) -> int:
    if not arguments:
        build_parser().print_help(sys.stderr)
        return USAGE
    try:
        args = parse(arguments)
    except SystemExit as stop:
        # argparse ends the process itself; ending it is for the script's wrapper alone.
        return stop.code if isinstance(stop.code, int) else USAGE
    return _run(args)


def _run(args: Namespace) -> int:
    module, _, function = COMMANDS[args.command].entry.partition(":")
    command = getattr(import_module(f"threadkeep.cli.{module}"), function)
    try:
        code: int = command(args)
    except ThreadkeepError as error:
        from threadkeep.cli.output import print_error

        print_error(error, as_json=args.json)
        return FAILED
    return code
