"""The grammar of the commands that look after a store: its schema, where it lies, what it remembers, what it must forget."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Mapping

from threadkeep.cli.argument_values import record
from threadkeep.cli.command import Command


def _migrate(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--post", action="store_true", help="also what no older threadkeep survives; first make sure that none is running"
    )


def _copy(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC", help="the store to copy from, as --store takes it")
    parser.add_argument("target", metavar="DST", help="the store to copy to; a file is made if it is not there")
    parser.add_argument("--tenant", metavar="NAME", help="whose threads (default: the configured tenant)")
    parser.add_argument(
        "--thread",
        dest="threads",
        action="append",
        metavar="ID",
        help="only this thread, and those it was forked from; repeatable",
    )
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help="print one JSON object")


def _memory(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="ACTION",
        choices=("run", "show", "edit", "forget", "reset"),
        help="run (read idle threads), show [WORDS], edit, forget THREAD…, or reset",
    )
    parser.add_argument("words", nargs="*", metavar="WORDS", help="show: what to look for; forget: the threads")
    parser.add_argument("--watch", action="store_true", help="run: go on until interrupted; any number of workers may")
    parser.add_argument("--file", metavar="PAGE", help="edit: the changed page, - for stdin (default: in $EDITOR)")


def _erase(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="a thread's id, or any beginning of it that no other shares")
    parser.add_argument("ordinals", nargs="*", metavar="ORDINAL", type=record, help="its records (default: all of them)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the record of it that is kept")
    parser.add_argument("--yes", action="store_true", help="do it: without this it says what it would do")


def _take_out(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", help="a new folder: threads as lines, memory, keys, audit, an index"
    )


def _archive(parser: ArgumentParser) -> None:
    parser.add_argument("threads", nargs="+", metavar="THREAD", help="a thread's id, or any beginning of it that no other shares")


UPKEEP: Mapping[str, Command] = {
    "migrate": Command(
        does="bring the store's schema up to date, safely while older processes run; --post when none is left",
        example="threadkeep migrate --store postgresql://db.internal/threadkeep --post",
        entry="migrate:run",
        arguments=_migrate,
    ),
    "copy": Command(
        does="copy threads from one store to another, digests compared; again goes on where it stopped",
        example="threadkeep copy agent.db postgresql://db.internal/threadkeep",
        entry="copy:run",
        arguments=_copy,
        opens_store=False,
        prints_json=True,
    ),
    "memory": Command(
        does="remember across threads: read idle ones, show and edit what is remembered, forget",
        example="threadkeep memory run --watch",
        entry="memory:run",
        arguments=_memory,
    ),
    "erase": Command(
        does="erase a thread, or records of it, for good: bytes, words, memories, and checkpoints that quote them",
        example='threadkeep erase ship-it 12 13 --reason "a password" --yes',
        entry="erase:run",
        arguments=_erase,
    ),
    "takeout": Command(
        does="write down everything the store has about a tenant: threads, memory, keys without their secrets, audit",
        example="threadkeep takeout -o everything",
        entry="erase:take_out_everything",
        arguments=_take_out,
    ),
    "archive": Command(
        does="put threads away: out of the list and never read for the memory; nothing else changes",
        example="threadkeep archive ship-it",
        entry="archive:run",
        arguments=_archive,
    ),
    "unarchive": Command(
        does="put threads back into the list; `threads --archived` names those put away",
        example="threadkeep unarchive ship-it",
        entry="archive:undo",
        arguments=_archive,
    ),
}
