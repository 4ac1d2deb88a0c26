"""Every command of threadkeep: what it does, an example, its arguments, and the function that runs it.

Nothing heavy is imported here, so that `--help` and a mistyped command answer at once: a command's own module is loaded when it
is run, by the name in `entry`.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DAILY = "every day"
SETUP = "set up"
THREAD = "work on a thread"
PROGRAMS = "connect other programs"
STORE = "look after the store"
# The clients of `threadkeep.launch`, whose own modules are too heavy to import here.
SETUP_NAMES = ("claude", "codex", "opencode", "pi", "qwen", "cline", "aider")
CLIENT_NAMES = (*SETUP_NAMES, "copilot", "gemini", "grok")
MODES = ("off", "background", "on")

_ordinal = re.compile(r"#?(\d{1,15})")
_target = re.compile(r"\d{1,15}|(?:\d{1,2}|100)%")

Arguments = Callable[[ArgumentParser], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: its group and sentence in `--help`, an example, and `module:function` of this package.

    A command that works on a store takes `--store`, one that prints JSON takes `--json`.
    """

    group: str
    does: str
    example: str
    entry: str
    arguments: Arguments
    takes_store: bool = True
    takes_json: bool = True


COMMANDS: dict[str, Command] = {}
"""By name, in the order of `--help`."""


def _command(
    group: str, does: str, *, example: str, entry: str | None = None, takes_store: bool = True, takes_json: bool = True
) -> Callable[[Arguments], Arguments]:
    """Register the command that has the name of the function below, which adds its arguments.

    It is run by the function `run` of the module of that name, unless `entry` names another.
    """

    def register(arguments: Arguments) -> Arguments:
        name = arguments.__name__.removesuffix("_")
        COMMANDS[name] = Command(
            group=group,
            does=does,
            example=example,
            entry=entry or f"{name}:run",
            arguments=arguments,
            takes_store=takes_store,
            takes_json=takes_json,
        )
        return arguments

    return register


def parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def _parse_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _parse_ordinal(text: str) -> int:
    match = _ordinal.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a record's ordinal; write 123")
    return int(match[1])


def _parse_target(text: str) -> str:
    if _target.fullmatch(text) is None:
        raise ArgumentTypeError(f"{text!r} is not a target; write a number of tokens, or a percentage such as 10%")
    return text


def _parse_path(text: str) -> Path:
    return Path(text).expanduser()


def _parse_client(text: str) -> str:
    if text not in CLIENT_NAMES:
        clients = ", ".join(CLIENT_NAMES)
        # A line each, so that a narrow terminal breaks none of them.
        raise ArgumentTypeError(
            f"no client is named {text!r}\nclients: {clients}\nfor any other program: threadkeep run -- {text}"
        )
    return text


def _parse_client_mode(text: str) -> tuple[str, str]:
    name, _, mode = text.rpartition("=")
    if not name or mode not in MODES:
        raise ArgumentTypeError(f"{text!r} is not NAME=MODE with a mode of {', '.join(MODES)}")
    return name, mode


def _add_thread(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="a thread's id, or the beginning of it")


def _add_upstreams(parser: ArgumentParser, *, default: str | None = None) -> None:
    from threadkeep.config import Config

    for provider, url in Config().upstreams.items():
        help = f"where requests for the API of {provider} go (default: {default or url})"
        parser.add_argument(f"--{provider}-upstream", metavar="URL", help=help)
    spoken = "`chat` if the upstreams have Chat Completions alone; `auto` finds out, `same` never translates (default: auto)"
    parser.add_argument("--upstream-dialect", metavar="NAME", help=spoken)


def _add_auto_compact(parser: ArgumentParser, *, default: str) -> None:
    help = f"on: compact a thread before its window is full; background: also prepare it ahead; off: never (default: {default})"
    parser.add_argument("--auto-compact", choices=MODES, help=help)


def _add_listener(parser: ArgumentParser) -> None:
    parser.add_argument("--host", help="the address to listen on; one that others reach needs --keys (default: 127.0.0.1)")
    parser.add_argument("--port", type=_parse_port, help="the port to listen on; 0 takes a free one (default: 4621)")
    _add_upstreams(parser)
    parser.add_argument(
        "--keys",
        dest="keys_file",
        metavar="FILE",
        help="require an API key from this file; each key's tenant has its own threads",
    )
    parser.add_argument("--access-log", choices=("on", "off"), help="log a line of JSON per request (default: on)")


@_command(
    DAILY,
    "start a client on a gateway, for this one process",
    example='threadkeep run claude\n  threadkeep run codex -- exec "fix the tests"\n  threadkeep run -- python agent.py',
)
def run(parser: ArgumentParser) -> None:
    parser.usage = "threadkeep run [CLIENT] [-- ARGS]\n       threadkeep run -- COMMAND [ARGS]"
    clients = f"one of {', '.join(CLIENT_NAMES)}; without it, lists which are installed"
    parser.add_argument("client", nargs="?", type=_parse_client, metavar="CLIENT", help=clients)
    _add_upstreams(parser, default="where they went before")
    _add_auto_compact(parser, default="background")


@_command(DAILY, "list the threads, newest first", example="threadkeep threads")
def threads(parser: ArgumentParser) -> None:
    limit = "how many, newest first (default: %(default)s)"
    parser.add_argument("--limit", type=parse_count, default=50, metavar="N", help=limit)
    parser.add_argument("--archived", action="store_true", help="archived threads too")


@_command(DAILY, "show a thread: its overview, window, records, state, tree or plot", example="threadkeep show ship-it --state")
def show(parser: ArgumentParser) -> None:
    _add_thread(parser)
    sides = parser.add_mutually_exclusive_group()
    for look, help in {
        "window": "the items the model sees next (the default of --json)",
        "records": "everything that was recorded, also what was taken back",
        "state": "the session state of the newest checkpoint",
        "tree": "the threads it was forked from, and its own forks",
        "plot": "the size of the window over time, and the compactions",
    }.items():
        sides.add_argument(f"--{look}", dest="look", action="store_const", const=look, help=help)


@_command(
    DAILY, "find original records by their words or by pointer", example="threadkeep recall ship-it which port does staging use"
)
def recall(parser: ArgumentParser) -> None:
    _add_thread(parser)
    query = "words, or a record: '#123' or 'THREAD#123', quoted"
    parser.add_argument("query", nargs="+", metavar="QUERY|POINTER", help=query)
    parser.add_argument("--limit", type=parse_count, default=5, metavar="N", help="how many hits (default: %(default)s)")


@_command(
    DAILY,
    "compact a thread now and report what was kept",
    example='threadkeep compact ship-it --target 10% --focus "the payment bug"',
)
def compact(parser: ArgumentParser) -> None:
    _add_thread(parser)
    from threadkeep.compaction.strategies import STRATEGIES

    *others, last = STRATEGIES
    strategy = f"how the state is drafted: {', '.join(others)} or {last} (default: as configured)"
    parser.add_argument("--strategy", metavar="S", help=strategy)
    parser.add_argument("--model", metavar="M", help="the model to ask: openai:NAME, anthropic:NAME or NAME@URL")
    parser.add_argument("--focus", metavar="TEXT", help="a subject to keep in view")
    target = "the largest size of the new window, in tokens or as a share of the old window"
    parser.add_argument("--target", type=_parse_target, metavar="N|N%", help=target)
    parser.add_argument("--dry-run", action="store_true", help="compute and report it, write nothing")


@_command(DAILY, "open threads and compactions in a browser on this machine", example="threadkeep view --open")
def view(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=_parse_port, default=4622, help="the port, 0 for a free one (default: %(default)s)")
    parser.add_argument("--allow-changes", action="store_true", help="let pages write notes, compact, undo, fork and roll back")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


@_command(
    SETUP,
    "play a long session through the real gateway, no key needed",
    example="threadkeep demo",
    takes_store=False,
    takes_json=False,
)
def demo(parser: ArgumentParser) -> None:
    pass


@_command(SETUP, "change the settings of installed clients, or take that back", example="threadkeep setup claude")
def setup(parser: ArgumentParser) -> None:
    parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"{', '.join(SETUP_NAMES)} (default: list them)")
    gateway, hooks = (
        "send the client's requests through the gateway",
        "without a gateway: restore the state after each compaction that the client does itself",
    )
    parser.add_argument("--gateway", dest="way", action="append_const", const="gateway", help=gateway)
    parser.add_argument("--hooks", dest="way", action="append_const", const="hooks", help=hooks)
    parser.add_argument("--undo", action="store_true", help="take back what setup wrote, and nothing else")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    parser.add_argument("--url", metavar="URL", help="the gateway's address (default: from host and port in your settings)")
    scope = "with --hooks: in your own settings, or in the project's (default: %(default)s)"
    parser.add_argument("--scope", choices=("user", "project"), default="user", help=scope)


@_command(SETUP, "run the gateway between clients and providers", example="threadkeep serve --port 4621 --auto-compact on")
def serve(parser: ArgumentParser) -> None:
    _add_listener(parser)
    _add_auto_compact(parser, default="off")
    parser.add_argument(
        "--auto-compact-for",
        type=_parse_client_mode,
        action="append",
        metavar="NAME=MODE",
        help="--auto-compact for one client or model; repeatable. Claude Code needs it: claude-code=on",
    )
    parser.add_argument("--no-keys", action="store_true", help="require no key, whatever keys_file says")
    token = "the token that the control API requires (default: $THREADKEEP_CONTROL_TOKEN, else a file beside the store)"
    parser.add_argument("--control-token", metavar="TOKEN", help=token)
    parser.add_argument("--log-content", action="store_const", const="on", help="log what clients send, too")
    parser.add_argument("--stop-with-stdin", action="store_true", help="stop when standard input ends")
    parser.add_argument("--allow-changes", action="store_true", help="let pages under /ui compact, undo, fork and roll back")


@_command(SETUP, "run the gateway at login: systemd on Linux, launchd on macOS", example="threadkeep service install --port 4621")
def service(parser: ArgumentParser) -> None:
    actions = ("install", "status", "remove")
    parser.add_argument("action", metavar="ACTION", choices=actions, help="install, status or remove")
    install = parser.add_argument_group("options of install")
    install.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    _add_listener(install)  # type: ignore[arg-type]  # a group takes arguments like a parser
    _add_auto_compact(install, default="on")  # type: ignore[arg-type]  # as above


@_command(
    SETUP,
    "make a key for the gateway; it is shown only once",
    entry="serve:run_key",
    example="threadkeep key alice --keys keys.toml",
    takes_store=False,
)
def key(parser: ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose key it is; keys of one tenant share its threads")
    parser.add_argument("--keys", dest="keys_file", metavar="FILE", help="the file its digest is added to (default: keys_file)")


@_command(SETUP, "check the installation, show changed settings, give advice", example="threadkeep doctor --hermes")
def doctor(parser: ArgumentParser) -> None:
    hermes = "ask Hermes, at this home, whether threadkeep is its context engine"
    parser.add_argument("--hermes", nargs="?", const="", metavar="HOME", help=hermes)
    parser.add_argument("--hermes-python", metavar="PYTHON", help="the interpreter Hermes runs in (default: its command's own)")


@_command(
    SETUP,
    "print a completion script for your shell",
    entry="parser:print_completion",
    example="threadkeep completion bash >> ~/.bash_completion",
    takes_store=False,
    takes_json=False,
)
def completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


@_command(THREAD, "talk to a model in a thread", example="threadkeep chat ship-it --model qwen@http://127.0.0.1:8080/v1")
def chat(parser: ArgumentParser) -> None:
    parser.add_argument("thread", nargs="?", metavar="THREAD", help="a thread to go on with, or a name for a new one")
    model = "the model: openai:NAME, anthropic:NAME or NAME@URL (default: chat_model, else the thread's last model)"
    parser.add_argument("--model", dest="chat_model", metavar="M", help=model)
    parser.add_argument("--resume", action="store_true", help="choose one of the newest threads to go on with")
    parser.add_argument("--instructions", metavar="TEXT", help="instructions for the model")
    mcp = "an MCP server whose tools the model may use: a URL, or a command; may be repeated"
    parser.add_argument("--mcp", action="append", default=[], metavar="SERVER", help=mcp)


@_command(
    THREAD,
    "add a note for the agent to the session state",
    entry="thread_changes:note",
    example='threadkeep note ship-it "Ask Ruth before you release." --pin',
)
def note(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the note for the agent; - reads it from stdin")
    parser.add_argument("--pin", action="store_true", help="keep it through every compaction")


@_command(
    THREAD,
    "keep an entry of the session state through every compaction",
    entry="thread_changes:set_pin",
    example="threadkeep pin ship-it 12",
)
def pin(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("entry", metavar="ENTRY", help="the id of an entry, from `threadkeep show THREAD --state`")


@_command(
    THREAD,
    "unpin an entry of the session state; it stays, like any other",
    entry="thread_changes:set_pin",
    example="threadkeep unpin ship-it 12",
)
def unpin(parser: ArgumentParser) -> None:
    pin(parser)


@_command(THREAD, "show what changed between two checkpoints", example="threadkeep diff ship-it 120 240")
def diff(parser: ArgumentParser) -> None:
    _add_thread(parser)
    earlier = "a checkpoint's ordinal (default: the one that B builds on)"
    later = "a checkpoint's ordinal (default: the one the window builds on)"
    parser.add_argument("earlier", nargs="?", type=_parse_ordinal, metavar="A", help=earlier)
    parser.add_argument("later", nargs="?", type=_parse_ordinal, metavar="B", help=later)


@_command(
    THREAD,
    "take back the newest compaction, or the last rollback",
    entry="thread_changes:undo",
    example="threadkeep undo ship-it",
)
def undo(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("--rollback", action="store_true", help="take back the last rollback instead")


@_command(
    THREAD,
    "take back the last turns; their records stay readable",
    entry="thread_changes:rollback",
    example="threadkeep rollback ship-it --turns 1",
)
def rollback(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("--turns", type=parse_count, required=True, metavar="N", help="how many turns to take back")


@_command(
    THREAD,
    "begin a new thread from a record of another; nothing is copied",
    entry="thread_changes:fork",
    example="threadkeep fork ship-it --before-turn 3 --name try-again",
)
def fork(parser: ArgumentParser) -> None:
    _add_thread(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--at", type=_parse_ordinal, metavar="ORDINAL", help="keep only the records before this one (default: keep all)"
    )
    place.add_argument("--before-turn", type=parse_count, metavar="N", help="keep only the turns before this one")
    place.add_argument("--after-turn", type=parse_count, metavar="N", help="keep this turn and those before it")
    parser.add_argument("--name", metavar="ID", help="the new thread's id (default: a new one)")


@_command(
    THREAD,
    "take threads out of the list and out of memory's reach",
    entry="thread_changes:set_archived",
    example="threadkeep archive ship-it",
)
def archive(parser: ArgumentParser) -> None:
    parser.add_argument("threads", nargs="+", metavar="THREAD", help="a thread's id, or the beginning of it")


@_command(
    THREAD, "put archived threads back into the list", entry="thread_changes:set_archived", example="threadkeep unarchive ship-it"
)
def unarchive(parser: ArgumentParser) -> None:
    archive(parser)


@_command(
    PROGRAMS,
    "import transcripts; running it again imports only new items",
    entry="import_export:run_import",
    example="threadkeep import ~/.codex/sessions --watch",
)
def import_(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=_parse_path, metavar="FILE", help="a transcript, or a folder of them")
    from threadkeep.transfer.import_formats import FORMATS

    formats = ("auto", *FORMATS)
    what = f"{', '.join(formats)} (default: auto)"
    parser.add_argument("--format", metavar="FORMAT", choices=formats, default="auto", help=what)
    parser.add_argument("--watch", action="store_true", help="go on importing new items until interrupted")


@_command(
    PROGRAMS,
    "export a thread as a Codex rollout, lines, document or list",
    entry="import_export:run_export",
    example="threadkeep export ship-it --format codex -o ~/.codex/sessions",
)
def export(parser: ArgumentParser) -> None:
    from threadkeep.transfer.export import EXPORT_FORMATS

    _add_thread(parser)
    what = "codex: a Codex rollout; jsonl: every item on a line; markdown: a document; the others: the window as a list of items"
    parser.add_argument("--format", choices=EXPORT_FORMATS, required=True, help=what)
    output = "the file to write; in a folder it gets the name its program would give it"
    parser.add_argument("-o", "--output", type=_parse_path, metavar="FILE", help=output)


@_command(PROGRAMS, "serve recall, notes and pins as MCP tools", example="threadkeep mcp --thread ship-it")
def mcp(parser: ArgumentParser) -> None:
    parser.add_argument("--thread", metavar="THREAD", help="the thread for tool calls that name no thread")
    parser.add_argument("--http", action="store_true", help="listen on this machine instead of speaking over stdin and stdout")
    port = "with --http: the port, 0 for a free one (default: %(default)s)"
    parser.add_argument("--port", type=_parse_port, default=4623, help=port)
    parser.add_argument("--keys", dest="keys_file", metavar="FILE", help="with --http: require an API key from this file")
    parser.add_argument("--read-only", action="store_true", help="leave out the tools that write: note and pin")
    trust = "treat note and pin as the user's own words; only for clients that ask the user before every such call"
    parser.add_argument("--trust-client", action="store_true", help=trust)


@_command(
    PROGRAMS,
    "answer a client's hook event; `setup CLIENT --hooks` adds it",
    example="threadkeep hook run claude-code < event.json",
)
def hook(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=("run",), help="run: answer one event, read from standard input")
    parser.add_argument("client", metavar="CLIENT", choices=("codex", "claude-code"), help="codex or claude-code")
    parser.add_argument("--part", type=parse_count, default=1, metavar="N", help="which part of a long state to print")


@_command(STORE, "extract, show, edit and forget what is remembered", example="threadkeep memory run --watch")
def memory(parser: ArgumentParser) -> None:
    actions = ("run", "show", "edit", "forget", "reset")
    what = "run (read idle threads), show [WORDS], edit, forget THREAD…, or reset"
    parser.add_argument("action", metavar="ACTION", choices=actions, help=what)
    parser.add_argument("words", nargs="*", metavar="WORDS", help="show: words to look for; forget: threads")
    parser.add_argument("--watch", action="store_true", help="run: go on until interrupted")
    parser.add_argument("--file", metavar="PAGE", help="edit: the changed page, - for stdin (default: in $EDITOR)")


@_command(
    STORE,
    "check digests, ordinals, pairs and pointers of all threads",
    entry="store_maintenance:run_verify",
    example="threadkeep verify ship-it",
)
def verify(parser: ArgumentParser) -> None:
    parser.add_argument("thread", nargs="?", metavar="THREAD", help="one thread (default: all of them)")


@_command(
    STORE,
    "copy threads to another store, every digest compared",
    entry="store_maintenance:run_copy",
    example="threadkeep copy agent.db postgresql://db.internal/threadkeep",
    takes_store=False,
)
def copy(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC", help="the store to copy from, as --store takes it")
    parser.add_argument("target", metavar="DST", help="the store to copy to; a file is made if it is not there")
    parser.add_argument("--tenant", metavar="NAME", help="whose threads (default: the configured tenant)")
    only = "only this thread and the threads it was forked from; may be repeated"
    parser.add_argument("--thread", dest="threads", action="append", metavar="ID", help=only)


@_command(
    STORE,
    "update the store's schema while older processes run",
    entry="store_maintenance:run_migrate",
    example="threadkeep migrate --store postgresql://db.internal/threadkeep --post",
)
def migrate(parser: ArgumentParser) -> None:
    parser.add_argument("--post", action="store_true", help="also the steps that need every older threadkeep to be stopped")


@_command(
    STORE,
    "erase a thread or records of it for good",
    entry="store_maintenance:run_erase",
    example='threadkeep erase ship-it 12 13 --reason "a password" --yes',
)
def erase(parser: ArgumentParser) -> None:
    _add_thread(parser)
    ordinals = "records of it (default: all of them)"
    parser.add_argument("ordinals", nargs="*", metavar="ORDINAL", type=_parse_ordinal, help=ordinals)
    parser.add_argument("--reason", default="", metavar="TEXT", help="the reason, noted in the thread")
    parser.add_argument("--yes", action="store_true", help="erase; without this it only says what it would erase")


@_command(
    STORE,
    "write everything the store has about a tenant into a folder",
    entry="store_maintenance:run_takeout",
    example="threadkeep takeout -o everything",
)
def takeout(parser: ArgumentParser) -> None:
    folder = "a new folder for threads, memory, keys, audit and an index"
    parser.add_argument("-o", "--output", type=_parse_path, required=True, metavar="FOLDER", help=folder)
