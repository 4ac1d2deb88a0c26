"""The grammar of the commands by which people and agents have a say in the session state: pins, notes, and MCP."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Mapping

from threadkeep.cli.argument_values import port
from threadkeep.cli.command import Command


def _entry(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="a thread's id, or any beginning of it that no other shares")
    parser.add_argument("entry", metavar="ENTRY", help="the id of an entry, as `threadkeep show THREAD --state` lists them")


def _note(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="a thread's id, or any beginning of it that no other shares")
    parser.add_argument("text", nargs="+", metavar="TEXT", help="what the agent is to know; - reads it from stdin")
    parser.add_argument("--pin", action="store_true", help="keep it whatever comes")


def _mcp(parser: ArgumentParser) -> None:
    parser.add_argument("--thread", metavar="THREAD", help="the thread that tools mean where a call names none")
    parser.add_argument("--http", action="store_true", help="listen on this machine instead of speaking over stdin and stdout")
    parser.add_argument("--port", type=port, default=4623, help="with --http: the port, 0 for a free one (default: %(default)s)")
    parser.add_argument(
        "--keys", dest="keys_file", metavar="FILE", default=SUPPRESS, help="with --http: serve only who has a key of this file"
    )
    parser.add_argument("--read-only", action="store_true", help="leave out the tools that write: note and pin")
    parser.add_argument(
        "--trust-client",
        action="store_true",
        help="take a call for the user's word: only where the client asks them before every call of note and pin",
    )


REMARKS: Mapping[str, Command] = {
    "pin": Command(
        does="keep an entry of the session state through every later compaction, whatever a summary says",
        example="threadkeep pin ship-it 12",
        entry="pin:pin",
        arguments=_entry,
    ),
    "unpin": Command(
        does="let go of a pinned entry; it stays, like any other",
        example="threadkeep unpin ship-it 12",
        entry="pin:unpin",
        arguments=_entry,
    ),
    "note": Command(
        does="write down what the agent is to know: in the session state at once, in the window from the next compaction on",
        example='threadkeep note ship-it "Ask Ruth before you release." --pin',
        entry="note:run",
        arguments=_note,
    ),
    "mcp": Command(
        does="let an agent recall, look at and note what its sessions hold, through the Model Context Protocol",
        example="threadkeep mcp --thread ship-it",
        entry="mcp:run",
        arguments=_mcp,
    ),
}
