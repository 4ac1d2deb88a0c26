"""The grammar of the commands on threads: list, look, compact, branch, find, talk, compare, prove."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping

from threadkeep.cli.argument_values import at_least_one, bound, port, record
from threadkeep.cli.command import Command


def a_thread(parser: ArgumentParser) -> None:
    """Add the argument that names one thread."""
    parser.add_argument("thread", metavar="THREAD", help="a thread's id, or any beginning of it that no other shares")


def _threads(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=at_least_one, default=50, metavar="N", help="how many, newest first (default: %(default)s)"
    )
    parser.add_argument("--archived", action="store_true", help="those put away too")


def _show(parser: ArgumentParser) -> None:
    a_thread(parser)
    which = parser.add_mutually_exclusive_group()
    for look, what in {
        "window": "what the model sees next, item by item (with --json, the default)",
        "records": "everything that was recorded, on the live path or left behind",
        "state": "the session state: what the newest checkpoint carries forward",
        "tree": "the threads it was forked from, and those forked from it",
        "plot": "how large the window was over the thread's life, and where it was compacted",
    }.items():
        which.add_argument(f"--{look}", dest="look", action="store_const", const=look, help=what)


def _compact(parser: ArgumentParser) -> None:
    a_thread(parser)
    parser.add_argument(
        "--strategy", metavar="S", help="how the state is drafted: session, handoff, remote, extractive (default: as configured)"
    )
    parser.add_argument("--model", metavar="M", help="whom to ask: openai:NAME, anthropic:NAME or NAME@URL")
    parser.add_argument("--focus", metavar="TEXT", help="what to keep in view")
    parser.add_argument("--target", type=bound, metavar="N|N%", help="bound of the new window: tokens, or a share of the old one")
    parser.add_argument("--dry-run", action="store_true", help="compute it, report it, write nothing")


def _fork(parser: ArgumentParser) -> None:
    a_thread(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--at", type=record, metavar="ORDINAL", help="the record it begins at (default: the end)")
    where.add_argument("--before-turn", type=at_least_one, metavar="N", help="the turn it begins before")
    where.add_argument("--after-turn", type=at_least_one, metavar="N", help="the turn it begins after")
    parser.add_argument("--name", metavar="ID", help="the new thread's id (default: a new one)")


def _rollback(parser: ArgumentParser) -> None:
    a_thread(parser)
    parser.add_argument("--turns", type=at_least_one, required=True, metavar="N", help="how many turns to take back")


def _undo(parser: ArgumentParser) -> None:
    a_thread(parser)
    parser.add_argument("--rollback", action="store_true", help="take back the last rollback instead")


def _recall(parser: ArgumentParser) -> None:
    a_thread(parser)
    parser.add_argument("query", nargs="+", metavar="QUERY|POINTER", help="words, or a record: '#123' or 'THREAD#123', quoted")
    parser.add_argument("--limit", type=at_least_one, default=5, metavar="N", help="how many hits (default: %(default)s)")


def _chat(parser: ArgumentParser) -> None:
    parser.add_argument("thread", nargs="?", metavar="THREAD", help="a thread to go on with, or a name for a new one")
    parser.add_argument(
        "--model",
        dest="chat_model",
        metavar="M",
        help="whom to talk to: openai:NAME, anthropic:NAME or NAME@URL (default: chat_model, else whom the thread talked to)",
    )
    parser.add_argument("--resume", action="store_true", help="choose one of the newest threads to go on with")
    parser.add_argument("--instructions", metavar="TEXT", help="what the model is told about how to answer")
    parser.add_argument(
        "--mcp", action="append", default=[], metavar="SERVER", help="an MCP server whose tools it may use: a URL, or a command"
    )


def _diff(parser: ArgumentParser) -> None:
    a_thread(parser)
    parser.add_argument(
        "earlier", nargs="?", type=record, metavar="A", help="a checkpoint's ordinal (default: the one that B builds on)"
    )
    parser.add_argument(
        "later", nargs="?", type=record, metavar="B", help="a checkpoint's ordinal (default: the one the window builds on)"
    )


def _view(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=port, default=4622, help="the port, 0 for a free one (default: %(default)s)")
    parser.add_argument("--allow-changes", action="store_true", help="let pages write notes, compact, undo, fork and roll back")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


def _verify(parser: ArgumentParser) -> None:
    parser.add_argument("thread", nargs="?", metavar="THREAD", help="one thread (default: all of them)")


THREADS: Mapping[str, Command] = {
    "threads": Command(
        does="list the threads, the most recently written first",
        example="threadkeep threads",
        entry="threads:run",
        arguments=_threads,
    ),
    "show": Command(
        does="look into a thread: an overview, or its window, records, state, forks or size over time",
        example="threadkeep show ship-it --state",
        entry="show:run",
        arguments=_show,
    ),
    "compact": Command(
        does="compact a thread now and report what was kept",
        example='threadkeep compact ship-it --target 10% --focus "the payment bug"',
        entry="compact:run",
        arguments=_compact,
    ),
    "fork": Command(
        does="begin a new thread at a record or turn of another; nothing is copied",
        example="threadkeep fork ship-it --before-turn 3 --name try-again",
        entry="branch:fork",
        arguments=_fork,
    ),
    "rollback": Command(
        does="take back the last turns of a thread; their records stay readable",
        example="threadkeep rollback ship-it --turns 1",
        entry="branch:rollback",
        arguments=_rollback,
    ),
    "undo": Command(
        does="take back the newest compaction of a thread, or its last rollback",
        example="threadkeep undo ship-it",
        entry="branch:undo",
        arguments=_undo,
    ),
    "recall": Command(
        does="find originals again, by what was said in them or by pointer",
        example="threadkeep recall ship-it which port does staging use",
        entry="recall:run",
        arguments=_recall,
    ),
    "chat": Command(
        does="talk to a model in a thread that never overflows; /help lists what else can be done",
        example="threadkeep chat ship-it --model qwen@http://127.0.0.1:8080/v1",
        entry="chat:run",
        arguments=_chat,
    ),
    "diff": Command(
        does="say what changed between two checkpoints of a thread: window, state, audit",
        example="threadkeep diff ship-it 120 240",
        entry="diff:run",
        arguments=_diff,
    ),
    "view": Command(
        does="show threads, compactions and what they changed in a browser, on this machine only",
        example="threadkeep view --open",
        entry="view:run",
        arguments=_view,
    ),
    "verify": Command(
        does="prove the store, or one thread: digests, ordinals, pairs, pointers",
        example="threadkeep verify ship-it",
        entry="verify:run",
        arguments=_verify,
    ),
}
