"""The grammar of the commands between threadkeep and other programs' transcripts: taken in, kept up with, written out."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping

from threadkeep.cli.argument_values import at_least_one
from threadkeep.cli.command import Command
from threadkeep.cli.thread_commands import a_thread


def _import(parser: ArgumentParser) -> None:
    from threadkeep.transfer.formats import FORMATS

    parser.add_argument("paths", nargs="+", metavar="FILE", help="a transcript, or a folder of them")
    parser.add_argument(
        "--format",
        choices=("auto", *FORMATS),
        default="auto",
        help="what wrote it (default: what stands in it)",
    )
    parser.add_argument("--watch", action="store_true", help="go on, and import what is added, until interrupted")


def _hook(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=("run",), help="run: answer one event, read from standard input")
    parser.add_argument("client", metavar="CLIENT", choices=("codex", "claude-code"), help="codex or claude-code")
    parser.add_argument("--part", type=at_least_one, default=1, metavar="N", help="which part of a long state to tell")


def _export(parser: ArgumentParser) -> None:
    from threadkeep.transfer.export import EXPORT_FORMATS

    a_thread(parser)
    parser.add_argument(
        "--format",
        choices=EXPORT_FORMATS,
        required=True,
        help="a rollout Codex resumes, all items one a line, a document, or the window as a list in the thread's own dialect",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; a folder gets a file named as its program would")


TRANSCRIPTS: Mapping[str, Command] = {
    "import": Command(
        does="take transcripts of Codex, Claude Code, pi, Hermes or plain lists in, one thread each; again adds what is new",
        example="threadkeep import ~/.codex/sessions --watch",
        entry="import_:run",
        arguments=_import,
    ),
    "hook": Command(
        does="answer an event of Codex or Claude Code; the hooks that `threadkeep setup CLIENT --hooks` writes call this",
        example="threadkeep hook run claude-code < event.json",
        entry="hook_run:run",
        arguments=_hook,
    ),
    "export": Command(
        does="write a thread as a Codex rollout, as lines, as a document or as a provider's list",
        example="threadkeep export ship-it --format codex -o ~/.codex/sessions",
        entry="export:run",
        arguments=_export,
    ),
}
