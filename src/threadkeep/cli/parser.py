"""The grammar of the command line, and which function answers each command.

Nothing heavy is imported here, so that `--help` and a mistyped command answer at once: a command's own module is loaded
when it is run, by the name in `entry`.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from threadkeep import __version__
from threadkeep.cli.command import Command
from threadkeep.cli.gateway_commands import GATEWAY
from threadkeep.cli.remark_commands import REMARKS
from threadkeep.cli.thread_commands import THREADS
from threadkeep.cli.transcript_commands import TRANSCRIPTS
from threadkeep.cli.upkeep_commands import UPKEEP


def build_parser(*, only: str | None = None) -> ArgumentParser:
    """Return the parser of the whole command line. `--store` and `--json` may stand before or after the command.

    With `only`, the other commands have no arguments: some take time to find out what they accept.
    """
    parser = ArgumentParser(
        prog="threadkeep",
        description="Keeps long-running LLM agents on course through any number of context compactions, and can prove it.",
        epilog="`threadkeep COMMAND --help` explains one; `threadkeep doctor` says what is set up and what to do next.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"threadkeep {__version__}")
    _add_common(parser, store=None, json=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", required=True)
    for name, command in COMMANDS.items():
        described = commands.add_parser(
            name,
            help=command.does,
            description=f"{command.does[0].upper()}{command.does[1:]}.",
            epilog=f"example:\n  {command.example}",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if only in (None, name):
            command.arguments(described)
        if command.opens_store:
            _add_common(described, store=SUPPRESS, json=SUPPRESS)
    return parser


def parse(arguments: Sequence[str]) -> Namespace:
    """Return the parsed arguments.

    Raises:
        SystemExit: With 2 after saying what is wrong with them, or with 0 after `--help` or `--version`.
    """
    own, words = _split_words(arguments)
    parser = build_parser(only=_command_in(own))
    args, unknown = parser.parse_known_args(own)
    if unknown:
        hint = "; what is for the client stands behind --" if args.command == "run" else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    args.behind_dashes = words
    command = COMMANDS[args.command]
    if not command.opens_store and (args.store is not None or (args.json and not command.prints_json)):
        takes = "takes no --store" if command.prints_json else "takes neither --store nor --json"
        parser.error(f"{args.command} {takes}")
    return args


def _split_words(arguments: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...] | None]:
    """Return what is for us, and what `run` passes on to a client: everything behind the first `--`."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    own = arguments[:at]
    return (own, tuple(arguments[at + 1 :])) if _command_in(own) == "run" and at < len(arguments) else (arguments, None)


def _command_in(words: Sequence[str]) -> str:
    """Return the first word that is neither an option nor an option's value; empty if there is none."""
    return next((word for before, word in pairwise(("", *words)) if not word.startswith("-") and before != "--store"), "")


def _add_common(parser: ArgumentParser, *, store: str | None, json: bool | str) -> None:
    # A command's own parser has no defaults for these: they would overwrite what stood before the command.
    parser.add_argument(
        "--store",
        metavar="PATH",
        default=store,
        help="the store: a path, sqlite:///PATH or postgresql://… (default: $THREADKEEP_STORE, threadkeep.toml, else your own)",
    )
    parser.add_argument("--json", action="store_true", default=json, help="print one JSON object")


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--hermes", nargs="?", const="", metavar="HOME", help="ask Hermes, at this home, whether threadkeep is its context engine"
    )
    parser.add_argument("--hermes-python", metavar="PYTHON", help="the interpreter Hermes runs in; default: its command's own")


# Commands about threadkeep itself; the others are listed with their kind, in the order of `--help`.
COMMANDS: Mapping[str, Command] = {
    **GATEWAY,
    **TRANSCRIPTS,
    **THREADS,
    "doctor": Command(
        does="say what is set, where it was set, whether it works, and what to do next",
        example="threadkeep doctor --hermes",
        entry="doctor:run",
        arguments=_doctor,
    ),
    **REMARKS,
    **UPKEEP,
    "completion": Command(
        does="print a script that completes commands, options, files and threads in your shell",
        example="threadkeep completion bash > ~/.local/share/bash-completion/completions/threadkeep",
        entry="completion:run",
        arguments=_completion,
        opens_store=False,
    ),
}
