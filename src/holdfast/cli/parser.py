"""The grammar of the command line, and which function answers each command.

Nothing heavy is imported here, so that `--help` and a mistyped command answer at once: a command's own module is loaded
when it is run, by the name in `entry`.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence

from holdfast import __version__
from holdfast.cli.argument_values import FEWEST_DEMO_TURNS, at_least_one, bound, port, record, session_length
from holdfast.cli.bench_arguments import bench_arguments
from holdfast.cli.command import Command
from holdfast.cli.remark_commands import REMARKS
from holdfast.cli.upkeep_commands import UPKEEP


def build_parser() -> ArgumentParser:
    """Return the parser of the whole command line. `--store` and `--json` may stand before or after the command."""
    parser = ArgumentParser(
        prog="holdfast",
        description="Keeps long-running LLM agents on course through any number of context compactions, and can prove it.",
        epilog="`holdfast COMMAND --help` explains one; `holdfast doctor` says what is set up and what to do next.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
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
        command.arguments(described)
        if command.opens_store:
            _add_common(described, store=SUPPRESS, json=SUPPRESS)
    return parser


def parse(arguments: Sequence[str]) -> Namespace:
    """Return the parsed arguments.

    Raises:
        SystemExit: With 2 after saying what is wrong with them, or with 0 after `--help` or `--version`.
    """
    parser = build_parser()
    args = parser.parse_args(arguments)
    command = COMMANDS[args.command]
    if not command.opens_store and (
        (args.store is not None and not command.names_store) or (args.json and not command.prints_json)
    ):
        takes = "takes no --store" if command.prints_json else "takes neither --store nor --json"
        parser.error(f"{args.command} {takes}")
    return args


def _add_common(parser: ArgumentParser, *, store: str | None, json: bool | str) -> None:
    # A command's own parser has no defaults for these: they would overwrite what stood before the command.
    parser.add_argument(
        "--store",
        metavar="PATH",
        default=store,
        help="the store: a path, sqlite:///PATH or postgresql://… (default: $HOLDFAST_STORE, holdfast.toml, else the user's own)",
    )
    parser.add_argument("--json", action="store_true", default=json, help="print one JSON object")


def _a_thread(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="a thread's id, or any beginning of it that no other shares")


def _demo(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--turns",
        type=session_length,
        default=60,
        metavar="N",
        help=f"how long the session is, at least {FEWEST_DEMO_TURNS} turns (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which session is played (default: %(default)s)")


def _serve(parser: ArgumentParser) -> None:
    parser.add_argument("--host", help="the address to listen on; one that others reach needs --keys (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, help="the port to listen on; 0 takes a free one (default: 4621)")
    parser.add_argument(
        "--openai-upstream", metavar="URL", help="where Responses and Chat requests go (default: https://api.openai.com)"
    )
    parser.add_argument(
        "--anthropic-upstream", metavar="URL", help="where Messages requests go (default: https://api.anthropic.com)"
    )
    parser.add_argument(
        "--auto-compact",
        choices=("off", "background", "on"),
        help="compact a thread before it outgrows its model, and prepare that in the background (default: off)",
    )
    parser.add_argument(
        "--keys", dest="keys_file", metavar="FILE", help="serve only who has a key of this file, each as its own tenant"
    )
    parser.add_argument(
        "--control-token",
        metavar="TOKEN",
        help="opens the control API (default: $HOLDFAST_CONTROL_TOKEN, else a file by the store)",
    )
    parser.add_argument("--access-log", choices=("on", "off"), help="a line of JSON on stderr per request (default: on)")
    parser.add_argument("--log-content", action="store_const", const="on", help="show what clients send in that log")
    parser.add_argument("--allow-changes", action="store_true", help="let pages under /ui compact, undo, fork and roll back")


def _key(parser: ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose key it is; keys of one tenant share its threads")
    parser.add_argument("--keys", dest="keys_file", metavar="FILE", help="the file its digest is added to (default: keys_file)")
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help="print one JSON object")


def _import(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="FILE", help="a transcript, or a folder of them")
    parser.add_argument(
        "--format",
        choices=("auto", "codex", "claude-code", "pi", "hermes", "chat", "responses", "messages"),
        default="auto",
        help="what wrote it (default: what stands in it)",
    )
    parser.add_argument("--watch", action="store_true", help="go on, and import what is added, until interrupted")


def _export(parser: ArgumentParser) -> None:
    _a_thread(parser)
    parser.add_argument(
        "--format",
        choices=("codex", "jsonl", "markdown", "responses", "chat", "messages"),
        required=True,
        help="a rollout Codex resumes, all items one a line, a document, or the window as a list in the thread's own dialect",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; a folder gets a file named as its program would")


def _threads(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=at_least_one, default=50, metavar="N", help="how many, newest first (default: %(default)s)"
    )
    parser.add_argument("--archived", action="store_true", help="those put away too")


def _show(parser: ArgumentParser) -> None:
    _a_thread(parser)
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
    _a_thread(parser)
    parser.add_argument(
        "--strategy", metavar="S", help="how the state is drafted: session, handoff, remote, extractive (default: as configured)"
    )
    parser.add_argument("--model", metavar="M", help="whom to ask: openai:NAME, anthropic:NAME or NAME@URL")
    parser.add_argument("--focus", metavar="TEXT", help="what to keep in view")
    parser.add_argument("--target", type=bound, metavar="N|N%", help="bound of the new window: tokens, or a share of the old one")
    parser.add_argument("--dry-run", action="store_true", help="compute it, report it, write nothing")


def _fork(parser: ArgumentParser) -> None:
    _a_thread(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--at", type=record, metavar="ORDINAL", help="the record it begins at (default: the end)")
    where.add_argument("--before-turn", type=at_least_one, metavar="N", help="the turn it begins before")
    where.add_argument("--after-turn", type=at_least_one, metavar="N", help="the turn it begins after")
    parser.add_argument("--name", metavar="ID", help="the new thread's id (default: a new one)")


def _rollback(parser: ArgumentParser) -> None:
    _a_thread(parser)
    parser.add_argument("--turns", type=at_least_one, required=True, metavar="N", help="how many turns to take back")


def _recall(parser: ArgumentParser) -> None:
    _a_thread(parser)
    parser.add_argument("query", nargs="+", metavar="QUERY|POINTER", help="words, or a record: '#123' or 'THREAD#123', quoted")
    parser.add_argument("--limit", type=at_least_one, default=5, metavar="N", help="how many hits (default: %(default)s)")


def _diff(parser: ArgumentParser) -> None:
    _a_thread(parser)
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


def _verify(parser: ArgumentParser) -> None:
    parser.add_argument("thread", nargs="?", metavar="THREAD", help="one thread (default: all of them)")


def _hook(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=("install", "run"), help="install, or run (which clients call)")
    parser.add_argument("client", metavar="CLIENT", choices=("codex", "claude-code"), help="codex or claude-code")
    parser.add_argument("--undo", action="store_true", help="install: take the hooks out again")
    parser.add_argument("--yes", action="store_true", help="install: do it; without this it shows what would change")
    parser.add_argument(
        "--scope", choices=("user", "project"), default="user", help="install: whose settings (default: %(default)s)"
    )
    parser.add_argument("--part", type=at_least_one, default=1, metavar="N", help="run: which part of a long state is told")


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh"), help="bash or zsh")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--hermes", nargs="?", const="", metavar="HOME", help="ask Hermes, at this home, whether holdfast is its context engine"
    )
    parser.add_argument("--hermes-python", metavar="PYTHON", help="the interpreter Hermes runs in; default: its command's own")


def _nothing_more(_: ArgumentParser) -> None:
    """The command has no arguments of its own."""


COMMANDS: Mapping[str, Command] = {
    "demo": Command(
        does="play a long session through the real gateway and many compactions, no key needed",
        example="holdfast demo --turns 120 --seed 7",
        entry="demo:run",
        arguments=_demo,
        opens_store=False,
    ),
    "serve": Command(
        does="run the gateway between an agent and its provider; it records, and obeys /compact",
        example="holdfast serve --port 4621 --auto-compact on",
        entry="serve:run",
        arguments=_serve,
    ),
    "key": Command(
        does="make a key of the gateway for a tenant; it is shown once, the file keeps its digest",
        example="holdfast key alice --keys keys.toml",
        entry="key:run",
        arguments=_key,
        opens_store=False,
        prints_json=True,
    ),
    "bench": Command(
        does="measure the store, the gateway, compactions and what they keep, beside others in one run on this machine",
        example="holdfast bench store --full -o store.json",
        entry="bench:run",
        arguments=bench_arguments,
        opens_store=False,
        prints_json=True,
        names_store=True,
    ),
    "import": Command(
        does="take transcripts of Codex, Claude Code, pi, Hermes or plain lists in, one thread each; again adds what is new",
        example="holdfast import ~/.codex/sessions --watch",
        entry="import_:run",
        arguments=_import,
    ),
    "hook": Command(
        does="keep a session's state through a client's own compaction, without a gateway: hooks of Codex and Claude Code",
        example="holdfast hook install claude-code --yes",
        entry="hook:run",
        arguments=_hook,
    ),
    "export": Command(
        does="write a thread as a Codex rollout, as lines, as a document or as a provider's list",
        example="holdfast export ship-it --format codex -o ~/.codex/sessions",
        entry="export:run",
        arguments=_export,
    ),
    "threads": Command(
        does="list the threads, the most recently written first",
        example="holdfast threads",
        entry="threads:run",
        arguments=_threads,
    ),
    "show": Command(
        does="look into a thread: an overview, or its window, records, state, forks or size over time",
        example="holdfast show ship-it --state",
        entry="show:run",
        arguments=_show,
    ),
    "compact": Command(
        does="compact a thread now and report what was kept",
        example='holdfast compact ship-it --target 10% --focus "the payment bug"',
        entry="compact:run",
        arguments=_compact,
    ),
    "fork": Command(
        does="begin a new thread at a record or turn of another; nothing is copied",
        example="holdfast fork ship-it --before-turn 3 --name try-again",
        entry="branch:fork",
        arguments=_fork,
    ),
    "rollback": Command(
        does="take back the last turns of a thread; their records stay readable",
        example="holdfast rollback ship-it --turns 1",
        entry="branch:rollback",
        arguments=_rollback,
    ),
    "undo": Command(
        does="take back the newest compaction of a thread",
        example="holdfast undo ship-it",
        entry="branch:undo",
        arguments=_a_thread,
    ),
    "recall": Command(
        does="find originals again, by what was said in them or by pointer",
        example="holdfast recall ship-it which port does staging use",
        entry="recall:run",
        arguments=_recall,
    ),
    "chat": Command(
        does="talk to a model in a thread that never overflows; /help lists what else can be done",
        example="holdfast chat ship-it --model qwen@http://127.0.0.1:8080/v1",
        entry="chat:run",
        arguments=_chat,
    ),
    "diff": Command(
        does="say what changed between two checkpoints of a thread: window, state, audit",
        example="holdfast diff ship-it 120 240",
        entry="diff:run",
        arguments=_diff,
    ),
    "view": Command(
        does="show threads, compactions and what they changed in a browser, on this machine only",
        example="holdfast view --open",
        entry="view:run",
        arguments=_view,
    ),
    "verify": Command(
        does="prove the store, or one thread: digests, ordinals, pairs, pointers",
        example="holdfast verify ship-it",
        entry="verify:run",
        arguments=_verify,
    ),
    "doctor": Command(
        does="say what is set, where it was set, whether it works, and what to do next",
        example="holdfast doctor --hermes",
        entry="doctor:run",
        arguments=_doctor,
    ),
    **REMARKS,
    **UPKEEP,
    "completion": Command(
        does="print a script that completes commands, options, files and threads in your shell",
        example="holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast",
        entry="completion:run",
        arguments=_completion,
        opens_store=False,
    ),
}
