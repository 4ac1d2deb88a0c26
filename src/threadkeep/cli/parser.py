"""The parser of the command line, its help, and the script that completes commands in a shell.

`--store` and `--json` may stand before or after the command.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Iterator, Sequence
from itertools import pairwise

from threadkeep import __version__
from threadkeep.cli.commands import COMMANDS

DESCRIPTION = """\
Keeps long-running LLM agents on course through any number of context
compactions, and can prove it."""
EPILOG = """\
options:
  --store PATH  the store: a path, sqlite:///PATH or postgresql://…
                (default: $THREADKEEP_STORE, else `store` in your own
                threadkeep.toml, else a file in ~/.local/share/threadkeep)
  --json        print one JSON object
  --version     print the version
  -h, --help    print this; `threadkeep COMMAND --help` explains a command"""

# Ids are read from the store when a key is pressed. They are letters, digits, dots and dashes: a shell has nothing to expand.
_IDS = r"""threadkeep threads --json 2>/dev/null | tr ',{' '\n\n' | sed -n 's/^"id":"\([A-Za-z0-9._-]*\)"$/\1/p'"""
_PREAMBLES = {
    "bash": f'_threadkeep_threads() {{ compgen -W "$({_IDS})" -- "$1"; }}\n',
    "zsh": f'_threadkeep_threads() {{ local -a ids; ids=(${{(f)"$({_IDS})"}}); compadd -a ids }}\n',
    "fish": f"function _threadkeep_threads; {_IDS}; end\n",
}
_THREADS = {"bash": "_threadkeep_threads", "zsh": "_threadkeep_threads", "fish": "(_threadkeep_threads)"}
_FILES = ("FILE", "FOLDER", "PATH")


class _TopParser(ArgumentParser):
    """Prints the commands by group, a line each."""

    def format_help(self) -> str:
        groups: dict[str, list[str]] = {}
        for name, command in COMMANDS.items():
            groups.setdefault(command.group, [f"{command.group}:"]).append(f"  {name:<11} {command.does}")
        return "\n\n".join([self.format_usage().strip(), DESCRIPTION, *map("\n".join, groups.values()), EPILOG]) + "\n"


def build_parser(*, only: str | None = None) -> ArgumentParser:
    """Return the parser of the whole command line.

    With `only`, the other commands have no arguments: some of them load modules to find out what they accept.
    """
    parser = _TopParser(prog="threadkeep", usage="threadkeep [--store PATH] [--json] COMMAND …", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"threadkeep {__version__}")
    _add_store(parser, default=None)
    _add_json(parser, default=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=ArgumentParser)
    for name, command in COMMANDS.items():
        below = commands.add_parser(
            name,
            prog=f"threadkeep {name}",
            help=command.does,
            description=f"{command.does[0].upper()}{command.does[1:]}.",
            epilog=f"example:\n  {command.example}",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if only in (None, name):
            command.arguments(below)
        # These have no defaults here: they would overwrite values that stood before the command.
        if command.takes_store:
            _add_store(below, default=SUPPRESS)
        if command.takes_json:
            _add_json(below, default=SUPPRESS)
    return parser


def parse(arguments: Sequence[str]) -> Namespace:
    """Return the parsed arguments.

    Raises:
        SystemExit: With 2 after an error that names the problem, or with 0 after `--help` or `--version`.
    """
    name = _find_command(arguments)
    parser = build_parser(only=name or "")
    if name is not None and name not in COMMANDS:
        parser.exit(2, f"{parser.format_usage()}threadkeep: error: {_suggest(name)}\n")
    own, behind_dashes = _split_at_dashes(arguments) if name == "run" else (arguments, None)
    args, unknown = parser.parse_known_args(own)
    command = COMMANDS[args.command]
    below = next(_list_parsers(parser, args.command))
    if unknown:
        hint = "; arguments for the client stand behind --" if args.command == "run" else ""
        below.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if args.store is not None and not command.takes_store:
        below.error(f"{args.command} takes no --store")
    if args.json and not command.takes_json:
        below.error(f"{args.command} takes no --json")
    args.behind_dashes = behind_dashes
    return args


def _find_command(arguments: Sequence[str]) -> str | None:
    """Return the first word that is neither an option nor an option's value, if there is one."""
    return next((word for before, word in pairwise(("", *arguments)) if not word.startswith("-") and before != "--store"), None)


def _suggest(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no command {name[:40]!r}{hint}\n`threadkeep --help` lists the commands"


def _split_at_dashes(arguments: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...] | None]:
    """Return our own words, and those that `run` passes on to a client: everything behind the first `--`."""
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])


def _add_store(parser: ArgumentParser, *, default: str | None) -> None:
    default_store = "$THREADKEEP_STORE, else `store` in your own threadkeep.toml, else a file in ~/.local/share/threadkeep"
    help = f"the store: a path, sqlite:///PATH or postgresql://… (default: {default_store})"
    parser.add_argument("--store", metavar="PATH", default=default, help=help)


def _add_json(parser: ArgumentParser, *, default: str | bool) -> None:
    parser.add_argument("--json", action="store_true", default=default, help="print one JSON object")


def _list_parsers(parser: ArgumentParser, *names: str) -> Iterator[ArgumentParser]:
    """Yield the parsers of these commands, or of all."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            yield from (below for name, below in action.choices.items() if not names or name in names)


def print_completion(args: Namespace) -> int:
    """Print a script that completes commands, options, choices, files and the ids of threads."""
    import shtab

    parser = build_parser()
    for each in (parser, *_list_parsers(parser)):
        for action in each._actions:
            # Where shtab looks for what completes an argument.
            if action.metavar == "THREAD":
                action.complete = _THREADS  # type: ignore[attr-defined]  # shtab reads it; argparse does not know it
            elif action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # as above
    sys.stdout.write(shtab.complete(parser, shell=args.shell, preamble=_PREAMBLES[args.shell]))
    return 0
