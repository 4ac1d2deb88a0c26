"""Every command of threadkeep: what it does, an example, its arguments, and the function that runs it.

Nothing heavy is imported here, so that `--help` and a mistyped command answer at once: a command's own module is loaded when it
is run, by the name in `entry`.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# The clients of `threadkeep.launch`, whose own modules are too heavy to import here.
CLIENT_NAMES = ("claude", "codex", "opencode", "pi", "qwen", "cline", "aider")
MODES = ("off", "background", "on")

_ordinal = re.compile(r"#?(\d{1,15})")
_target = re.compile(r"\d{1,15}|(?:\d{1,2}|100)%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: its help in a sentence, an example, its arguments, and `module:function` within this package.

    A command that works on a store takes `--store`, one that prints JSON takes `--json`.
    """

    does: str
    example: str
    entry: str
    arguments: Callable[[ArgumentParser], None]
    takes_store: bool = True
    takes_json: bool = True


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


def _add_nothing(parser: ArgumentParser) -> None:
    pass


def _add_thread(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="a thread's id, or the beginning of it")


def _add_threads(parser: ArgumentParser) -> None:
    parser.add_argument("threads", nargs="+", metavar="THREAD", help="a thread's id, or the beginning of it")


def _add_upstreams(parser: ArgumentParser, *, openai: str, anthropic: str) -> None:
    parser.add_argument("--openai-upstream", metavar="URL", help=f"where Responses and Chat requests go (default: {openai})")
    parser.add_argument("--anthropic-upstream", metavar="URL", help=f"where Messages requests go (default: {anthropic})")


def _add_auto_compact(parser: ArgumentParser, *, default: str) -> None:
    help = f"compact a thread before its window overflows, or prepare that in the background (default: {default})"
    parser.add_argument("--auto-compact", choices=MODES, help=help)


def _add_listener(parser: ArgumentParser) -> None:
    parser.add_argument("--host", help="the address to listen on; one that others reach needs --keys (default: 127.0.0.1)")
    parser.add_argument("--port", type=_parse_port, help="the port to listen on; 0 takes a free one (default: 4621)")
    _add_upstreams(parser, openai="https://api.openai.com", anthropic="https://api.anthropic.com")
    parser.add_argument(
        "--keys",
        dest="keys_file",
        metavar="FILE",
        help="require an API key from this file; each key's tenant has its own threads",
    )
    parser.add_argument("--access-log", choices=("on", "off"), help="log a line of JSON per request (default: on)")


def _add_run(parser: ArgumentParser) -> None:
    parser.usage = "threadkeep run [CLIENT] [-- ARGS]\n       threadkeep run -- COMMAND [ARGS]"
    clients = f"one of {', '.join(CLIENT_NAMES)}; without it, lists which are installed"
    parser.add_argument("client", nargs="?", type=_parse_client, metavar="CLIENT", help=clients)
    _add_upstreams(parser, openai="where they went before", anthropic="where they went before")
    _add_auto_compact(parser, default="background")


def _add_setup(parser: ArgumentParser) -> None:
    parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"{', '.join(CLIENT_NAMES)} (default: list them)")
    gateway, hooks = (
        "send the client's requests through the gateway",
        "keep its state through its own compactions, without a gateway",
    )
    parser.add_argument("--gateway", dest="way", action="append_const", const="gateway", help=gateway)
    parser.add_argument("--hooks", dest="way", action="append_const", const="hooks", help=hooks)
    parser.add_argument("--undo", action="store_true", help="take back what setup wrote, and nothing else")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    parser.add_argument("--url", metavar="URL", help="the gateway's address (default: from host and port in your settings)")
    scope = "with --hooks: in your own settings, or in the project's (default: %(default)s)"
    parser.add_argument("--scope", choices=("user", "project"), default="user", help=scope)


def _add_serve(parser: ArgumentParser) -> None:
    _add_listener(parser)
    _add_auto_compact(parser, default="off")
    parser.add_argument(
        "--auto-compact-for",
        type=_parse_client_mode,
        action="append",
        metavar="NAME=MODE",
        help="the same for one client or model, such as claude-code=on, which needs this; may be repeated",
    )
    parser.add_argument("--no-keys", action="store_true", help="require no key, whatever keys_file says")
    token = "opens the control API (default: $THREADKEEP_CONTROL_TOKEN, else a file beside the store)"
    parser.add_argument("--control-token", metavar="TOKEN", help=token)
    parser.add_argument("--log-content", action="store_const", const="on", help="log what clients send, too")
    parser.add_argument("--stop-with-stdin", action="store_true", help="stop when standard input ends")
    parser.add_argument("--allow-changes", action="store_true", help="let pages under /ui compact, undo, fork and roll back")


def _add_service(parser: ArgumentParser) -> None:
    actions = ("install", "status", "remove")
    parser.add_argument("action", metavar="ACTION", choices=actions, help="install, status or remove")
    install = parser.add_argument_group("options of install")
    install.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    _add_listener(install)  # type: ignore[arg-type]  # a group takes arguments like a parser
    _add_auto_compact(install, default="on")  # type: ignore[arg-type]


def _add_key(parser: ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose key it is; keys of one tenant share its threads")
    parser.add_argument("--keys", dest="keys_file", metavar="FILE", help="the file its digest is added to (default: keys_file)")


def _add_list(parser: ArgumentParser) -> None:
    limit = "how many, newest first (default: %(default)s)"
    parser.add_argument("--limit", type=parse_count, default=50, metavar="N", help=limit)
    parser.add_argument("--archived", action="store_true", help="archived threads too")


def _add_show(parser: ArgumentParser) -> None:
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


def _add_compact(parser: ArgumentParser) -> None:
    _add_thread(parser)
    strategy = "how the state is drafted: session, handoff, remote or extractive (default: as configured)"
    parser.add_argument("--strategy", metavar="S", help=strategy)
    parser.add_argument("--model", metavar="M", help="the model to ask: openai:NAME, anthropic:NAME or NAME@URL")
    parser.add_argument("--focus", metavar="TEXT", help="a subject to keep in view")
    target = "the largest new window: tokens, or a share of the old one"
    parser.add_argument("--target", type=_parse_target, metavar="N|N%", help=target)
    parser.add_argument("--dry-run", action="store_true", help="compute and report it, write nothing")


def _add_fork(parser: ArgumentParser) -> None:
    _add_thread(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--at", type=_parse_ordinal, metavar="ORDINAL", help="the record it begins at (default: the end)")
    place.add_argument("--before-turn", type=parse_count, metavar="N", help="the turn it begins before")
    place.add_argument("--after-turn", type=parse_count, metavar="N", help="the turn it begins after")
    parser.add_argument("--name", metavar="ID", help="the new thread's id (default: a new one)")


def _add_rollback(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("--turns", type=parse_count, required=True, metavar="N", help="how many turns to take back")


def _add_undo(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("--rollback", action="store_true", help="take back the last rollback instead")


def _add_diff(parser: ArgumentParser) -> None:
    _add_thread(parser)
    earlier = "a checkpoint's ordinal (default: the one that B builds on)"
    later = "a checkpoint's ordinal (default: the one the window builds on)"
    parser.add_argument("earlier", nargs="?", type=_parse_ordinal, metavar="A", help=earlier)
    parser.add_argument("later", nargs="?", type=_parse_ordinal, metavar="B", help=later)


def _add_recall(parser: ArgumentParser) -> None:
    _add_thread(parser)
    query = "words, or a record: '#123' or 'THREAD#123', quoted"
    parser.add_argument("query", nargs="+", metavar="QUERY|POINTER", help=query)
    parser.add_argument("--limit", type=parse_count, default=5, metavar="N", help="how many hits (default: %(default)s)")


def _add_chat(parser: ArgumentParser) -> None:
    parser.add_argument("thread", nargs="?", metavar="THREAD", help="a thread to go on with, or a name for a new one")
    model = "the model: openai:NAME, anthropic:NAME or NAME@URL (default: chat_model, else the thread's last model)"
    parser.add_argument("--model", dest="chat_model", metavar="M", help=model)
    parser.add_argument("--resume", action="store_true", help="choose one of the newest threads to go on with")
    parser.add_argument("--instructions", metavar="TEXT", help="instructions for the model")
    mcp = "an MCP server whose tools the model may use: a URL, or a command; may be repeated"
    parser.add_argument("--mcp", action="append", default=[], metavar="SERVER", help=mcp)


def _add_view(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=_parse_port, default=4622, help="the port, 0 for a free one (default: %(default)s)")
    parser.add_argument("--allow-changes", action="store_true", help="let pages write notes, compact, undo, fork and roll back")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


def _add_verify(parser: ArgumentParser) -> None:
    parser.add_argument("thread", nargs="?", metavar="THREAD", help="one thread (default: all of them)")


def _add_entry(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("entry", metavar="ENTRY", help="the id of an entry, from `threadkeep show THREAD --state`")


def _add_note(parser: ArgumentParser) -> None:
    _add_thread(parser)
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the note for the agent; - reads it from stdin")
    parser.add_argument("--pin", action="store_true", help="keep it through every compaction")


def _add_mcp(parser: ArgumentParser) -> None:
    parser.add_argument("--thread", metavar="THREAD", help="the thread of calls that name none")
    parser.add_argument("--http", action="store_true", help="listen on this machine instead of speaking over stdin and stdout")
    port = "with --http: the port, 0 for a free one (default: %(default)s)"
    parser.add_argument("--port", type=_parse_port, default=4623, help=port)
    parser.add_argument("--keys", dest="keys_file", metavar="FILE", help="with --http: require an API key from this file")
    parser.add_argument("--read-only", action="store_true", help="leave out the tools that write: note and pin")
    trust = "treat note and pin as the user's own words; only for clients that ask the user before every such call"
    parser.add_argument("--trust-client", action="store_true", help=trust)


def _add_import(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="FILE", help="a transcript, or a folder of them")
    from threadkeep.transfer.formats import FORMATS

    parser.add_argument("--format", choices=("auto", *FORMATS), default="auto", help="the format (default: recognised)")
    parser.add_argument("--watch", action="store_true", help="go on importing new items until interrupted")


def _add_export(parser: ArgumentParser) -> None:
    from threadkeep.transfer.export import EXPORT_FORMATS

    _add_thread(parser)
    what = "a rollout for Codex, all items one a line, a document, or the window as a list in the thread's own dialect"
    parser.add_argument("--format", choices=EXPORT_FORMATS, required=True, help=what)
    output = "the file to write; in a folder it gets the name its program would give it"
    parser.add_argument("-o", "--output", metavar="FILE", help=output)


def _add_memory(parser: ArgumentParser) -> None:
    actions = ("run", "show", "edit", "forget", "reset")
    what = "run (read idle threads), show [WORDS], edit, forget THREAD…, or reset"
    parser.add_argument("action", metavar="ACTION", choices=actions, help=what)
    parser.add_argument("words", nargs="*", metavar="WORDS", help="show: words to look for; forget: threads")
    parser.add_argument("--watch", action="store_true", help="run: go on until interrupted")
    parser.add_argument("--file", metavar="PAGE", help="edit: the changed page, - for stdin (default: in $EDITOR)")


def _add_copy(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC", help="the store to copy from, as --store takes it")
    parser.add_argument("target", metavar="DST", help="the store to copy to; a file is made if it is not there")
    parser.add_argument("--tenant", metavar="NAME", help="whose threads (default: the configured tenant)")
    only = "only this thread and the threads it was forked from; may be repeated"
    parser.add_argument("--thread", dest="threads", action="append", metavar="ID", help=only)


def _add_migrate(parser: ArgumentParser) -> None:
    parser.add_argument("--post", action="store_true", help="also the steps that need every older threadkeep to be stopped")


def _add_erase(parser: ArgumentParser) -> None:
    _add_thread(parser)
    ordinals = "records of it (default: all of them)"
    parser.add_argument("ordinals", nargs="*", metavar="ORDINAL", type=_parse_ordinal, help=ordinals)
    parser.add_argument("--reason", default="", metavar="TEXT", help="the reason, noted in the thread")
    parser.add_argument("--yes", action="store_true", help="erase; without this it only says what it would erase")


def _add_takeout(parser: ArgumentParser) -> None:
    folder = "a new folder for threads, memory, keys, audit and an index"
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help=folder)


def _add_doctor(parser: ArgumentParser) -> None:
    hermes = "ask Hermes, at this home, whether threadkeep is its context engine"
    parser.add_argument("--hermes", nargs="?", const="", metavar="HOME", help=hermes)
    parser.add_argument("--hermes-python", metavar="PYTHON", help="the interpreter Hermes runs in (default: its command's own)")


def _add_hook(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=("run",), help="run: answer one event, read from standard input")
    parser.add_argument("client", metavar="CLIENT", choices=("codex", "claude-code"), help="codex or claude-code")
    parser.add_argument("--part", type=parse_count, default=1, metavar="N", help="which part of a long state to print")


def _add_completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


# In the order of `--help`.
GROUPS: Mapping[str, Mapping[str, Command]] = {
    "every day": {
        "run": Command(
            does="start a client on a gateway, for this one process",
            example='threadkeep run claude\n  threadkeep run codex -- exec "fix the tests"\n  threadkeep run -- python agent.py',
            entry="run:run",
            arguments=_add_run,
        ),
        "threads": Command(
            does="list the threads, newest first",
            example="threadkeep threads",
            entry="threads:run",
            arguments=_add_list,
        ),
        "show": Command(
            does="show a thread: its overview, window, records, state, tree or plot",
            example="threadkeep show ship-it --state",
            entry="show:run",
            arguments=_add_show,
        ),
        "recall": Command(
            does="find original records by their words or by pointer",
            example="threadkeep recall ship-it which port does staging use",
            entry="recall:run",
            arguments=_add_recall,
        ),
        "compact": Command(
            does="compact a thread now and report what was kept",
            example='threadkeep compact ship-it --target 10% --focus "the payment bug"',
            entry="compact:run",
            arguments=_add_compact,
        ),
        "view": Command(
            does="open threads and compactions in a browser on this machine",
            example="threadkeep view --open",
            entry="view:run",
            arguments=_add_view,
        ),
    },
    "set up": {
        "demo": Command(
            does="play a long session through the real gateway, no key needed",
            example="threadkeep demo",
            entry="demo:run",
            arguments=_add_nothing,
            takes_store=False,
            takes_json=False,
        ),
        "setup": Command(
            does="change the settings of installed clients, or take that back",
            example="threadkeep setup claude",
            entry="setup:run",
            arguments=_add_setup,
        ),
        "serve": Command(
            does="run the gateway between clients and providers",
            example="threadkeep serve --port 4621 --auto-compact on",
            entry="serve:run",
            arguments=_add_serve,
        ),
        "service": Command(
            does="run the gateway at login: systemd on Linux, launchd on macOS",
            example="threadkeep service install --port 4621",
            entry="service:run",
            arguments=_add_service,
        ),
        "key": Command(
            does="make a key for the gateway; it is shown only once",
            example="threadkeep key alice --keys keys.toml",
            entry="serve:run_key",
            arguments=_add_key,
            takes_store=False,
        ),
        "doctor": Command(
            does="check the installation, show changed settings, give advice",
            example="threadkeep doctor --hermes",
            entry="doctor:run",
            arguments=_add_doctor,
        ),
        "completion": Command(
            does="print a completion script for your shell",
            example="threadkeep completion bash >\n    ~/.local/share/bash-completion/completions/threadkeep",
            entry="parser:print_completion",
            arguments=_add_completion,
            takes_store=False,
            takes_json=False,
        ),
    },
    "work on a thread": {
        "chat": Command(
            does="talk to a model in a thread",
            example="threadkeep chat ship-it --model qwen@http://127.0.0.1:8080/v1",
            entry="chat:run",
            arguments=_add_chat,
        ),
        "note": Command(
            does="add a note for the agent to the session state",
            example='threadkeep note ship-it "Ask Ruth before you release." --pin',
            entry="notes:note",
            arguments=_add_note,
        ),
        "pin": Command(
            does="keep an entry of the session state through every compaction",
            example="threadkeep pin ship-it 12",
            entry="notes:pin",
            arguments=_add_entry,
        ),
        "unpin": Command(
            does="unpin an entry of the session state; it stays, like any other",
            example="threadkeep unpin ship-it 12",
            entry="notes:unpin",
            arguments=_add_entry,
        ),
        "diff": Command(
            does="show what changed between two checkpoints",
            example="threadkeep diff ship-it 120 240",
            entry="diff:run",
            arguments=_add_diff,
        ),
        "undo": Command(
            does="take back the newest compaction, or the last rollback",
            example="threadkeep undo ship-it",
            entry="branches:undo",
            arguments=_add_undo,
        ),
        "rollback": Command(
            does="take back the last turns; their records stay readable",
            example="threadkeep rollback ship-it --turns 1",
            entry="branches:rollback",
            arguments=_add_rollback,
        ),
        "fork": Command(
            does="begin a new thread inside another; nothing is copied",
            example="threadkeep fork ship-it --before-turn 3 --name try-again",
            entry="branches:fork",
            arguments=_add_fork,
        ),
        "archive": Command(
            does="take threads out of the list and out of memory's reach",
            example="threadkeep archive ship-it",
            entry="threads:archive",
            arguments=_add_threads,
        ),
        "unarchive": Command(
            does="put archived threads back into the list",
            example="threadkeep unarchive ship-it",
            entry="threads:unarchive",
            arguments=_add_threads,
        ),
    },
    "connect other programs": {
        "import": Command(
            does="import transcripts; running it again imports only new items",
            example="threadkeep import ~/.codex/sessions --watch",
            entry="transcripts:run_import",
            arguments=_add_import,
        ),
        "export": Command(
            does="export a thread as a Codex rollout, lines, document or list",
            example="threadkeep export ship-it --format codex -o ~/.codex/sessions",
            entry="transcripts:run_export",
            arguments=_add_export,
        ),
        "mcp": Command(
            does="serve recall, notes and pins as MCP tools",
            example="threadkeep mcp --thread ship-it",
            entry="mcp:run",
            arguments=_add_mcp,
        ),
        "hook": Command(
            does="answer a client's hook event; `setup CLIENT --hooks` adds it",
            example="threadkeep hook run claude-code < event.json",
            entry="hook:run",
            arguments=_add_hook,
        ),
    },
    "look after the store": {
        "memory": Command(
            does="extract, show, edit and forget what is remembered",
            example="threadkeep memory run --watch",
            entry="memory:run",
            arguments=_add_memory,
        ),
        "verify": Command(
            does="check digests, ordinals, pairs and pointers of all threads",
            example="threadkeep verify ship-it",
            entry="maintenance:run_verify",
            arguments=_add_verify,
        ),
        "copy": Command(
            does="copy threads to another store, every digest compared",
            example="threadkeep copy agent.db postgresql://db.internal/threadkeep",
            entry="maintenance:run_copy",
            arguments=_add_copy,
            takes_store=False,
        ),
        "migrate": Command(
            does="update the store's schema while older processes run",
            example="threadkeep migrate --store postgresql://db.internal/threadkeep --post",
            entry="maintenance:run_migrate",
            arguments=_add_migrate,
        ),
        "erase": Command(
            does="erase a thread or records of it for good",
            example='threadkeep erase ship-it 12 13 --reason "a password" --yes',
            entry="maintenance:run_erase",
            arguments=_add_erase,
        ),
        "takeout": Command(
            does="write everything the store has about a tenant into a folder",
            example="threadkeep takeout -o everything",
            entry="maintenance:run_takeout",
            arguments=_add_takeout,
        ),
    },
}
COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS.values() for name, command in group.items()}
