"""`threadkeep completion`: a script that lets a shell finish commands, options, choices, files and the ids of threads."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator

import shtab

from threadkeep.cli.parser import build_parser

# Ids are read from the store when a key is pressed. They are letters, digits, dots and dashes: a shell has nothing to expand.
_IDS = r"""threadkeep threads --json 2>/dev/null | tr ',{' '\n\n' | sed -n 's/^"id":"\([A-Za-z0-9._-]*\)"$/\1/p'"""
PREAMBLE = {
    "bash": f'_threadkeep_threads() {{ compgen -W "$({_IDS})" -- "$1"; }}\n',
    "zsh": f'_threadkeep_threads() {{ local -a ids; ids=(${{(f)"$({_IDS})"}}); compadd -a ids }}\n',
    "fish": f"function _threadkeep_threads; {_IDS}; end\n",
}
THREADS = {"bash": "_threadkeep_threads", "zsh": "_threadkeep_threads", "fish": "(_threadkeep_threads)"}
FILES = ("FILE", "FOLDER", "PATH")


def run(args: Namespace) -> int:
    """Print the script for a shell."""
    parser = build_parser()
    for each in _every(parser):
        _explain(each)
    sys.stdout.write(shtab.complete(parser, shell=args.shell, preamble=PREAMBLE[args.shell]))
    return 0


def _explain(parser: ArgumentParser) -> None:
    """Say which arguments are threads or files."""
    for action in parser._actions:
        if action.metavar == "THREAD":
            action.complete = THREADS  # type: ignore[attr-defined]  # where shtab looks for it
        elif action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # the same


def _every(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for below in action.choices.values():
                yield from _every(below)
