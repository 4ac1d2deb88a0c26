"""The grammar of the commands that run the gateway: on a session of our own making, for real, and for whom."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Mapping

from threadkeep.cli.argument_values import (
    CLIENT_NAMES,
    GatheredModes,
    client_mode,
    client_name,
    port,
)
from threadkeep.cli.command import Command


def _demo(_: ArgumentParser) -> None:
    """It takes none."""


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
        "--auto-compact-for",
        type=client_mode,
        action=GatheredModes,
        metavar="NAME=MODE",
        help="the same for one client or model, such as claude-code=on, which is left alone otherwise; may be repeated",
    )
    parser.add_argument(
        "--keys", dest="keys_file", metavar="FILE", help="serve only who has a key of this file, each as its own tenant"
    )
    parser.add_argument("--no-keys", action="store_true", help="serve everybody on this machine, whatever keys_file says")
    parser.add_argument(
        "--control-token",
        metavar="TOKEN",
        help="opens the control API (default: $THREADKEEP_CONTROL_TOKEN, else a file by the store)",
    )
    parser.add_argument("--access-log", choices=("on", "off"), help="a line of JSON on stderr per request (default: on)")
    parser.add_argument("--log-content", action="store_const", const="on", help="show what clients send in that log")
    parser.add_argument("--stop-with-stdin", action="store_true", help="stop when standard input ends, with who started it")
    parser.add_argument("--allow-changes", action="store_true", help="let pages under /ui compact, undo, fork and roll back")


def _service(parser: ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=("install", "status", "remove"), help="install, status or remove")
    parser.add_argument("--yes", action="store_true", help="install: do not ask; needed where there is no terminal")
    parser.add_argument("--host", help="install: the address to listen on; one that others reach needs --keys")
    parser.add_argument("--port", type=port, help="install: the port to listen on (default: 4621)")
    parser.add_argument("--openai-upstream", metavar="URL", help="install: where Responses and Chat requests go")
    parser.add_argument("--anthropic-upstream", metavar="URL", help="install: where Messages requests go")
    parser.add_argument("--auto-compact", choices=("off", "background", "on"), help="install: as serve has it (default: on)")
    parser.add_argument("--keys", dest="keys_file", metavar="FILE", help="install: require an API key from this file")
    parser.add_argument("--access-log", choices=("on", "off"), help="install: log a line of JSON per request (default: on)")


def _run(parser: ArgumentParser) -> None:
    parser.usage = "threadkeep run [CLIENT] [-- ARGS]\n       threadkeep run -- COMMAND [ARGS]"
    parser.add_argument(
        "client",
        nargs="?",
        type=client_name,
        metavar="CLIENT",
        help=f"one of {', '.join(CLIENT_NAMES)}; without one, says which are installed",
    )
    parser.add_argument(
        "--openai-upstream", metavar="URL", help="where requests to OpenAI's API go (default: where they went so far)"
    )
    parser.add_argument(
        "--anthropic-upstream", metavar="URL", help="where requests to Anthropic's API go (default: where they went so far)"
    )
    parser.add_argument("--auto-compact", choices=("off", "background", "on"), help="as for serve (default: background)")


def _key(parser: ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose key it is; keys of one tenant share its threads")
    parser.add_argument("--keys", dest="keys_file", metavar="FILE", help="the file its digest is added to (default: keys_file)")
    parser.add_argument("--json", action="store_true", default=SUPPRESS, help="print one JSON object")


def _setup(parser: ArgumentParser) -> None:
    parser.add_argument(
        "client", nargs="?", metavar="CLIENT", help="claude, codex, opencode, pi, qwen, cline or aider (default: list them)"
    )
    parser.add_argument(
        "--gateway", dest="way", action="append_const", const="gateway", help="send the client's requests through the gateway"
    )
    parser.add_argument(
        "--hooks",
        dest="way",
        action="append_const",
        const="hooks",
        help="keep its state through its own compactions, without a gateway",
    )
    parser.add_argument("--undo", action="store_true", help="take back what setup wrote, and nothing else")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    parser.add_argument("--url", metavar="URL", help="the gateway's address (default: from host and port in your settings)")
    parser.add_argument(
        "--scope", choices=("user", "project"), default="user", help="with --hooks: whose settings (default: %(default)s)"
    )


GATEWAY: Mapping[str, Command] = {
    "run": Command(
        does="start a client on a gateway of its own, for this one process, and say at the end what was saved",
        example='threadkeep run claude\n  threadkeep run codex -- exec "fix the tests"\n  threadkeep run -- python agent.py',
        entry="run:run",
        arguments=_run,
    ),
    "demo": Command(
        does="play a long session through the real gateway and many compactions, no key needed",
        example="threadkeep demo",
        entry="demo:run",
        arguments=_demo,
        opens_store=False,
    ),
    "serve": Command(
        does="run the gateway between an agent and its provider; it records, and obeys tk commands",
        example="threadkeep serve --port 4621 --auto-compact on",
        entry="serve:run",
        arguments=_serve,
    ),
    "setup": Command(
        does="find installed clients and change their settings so that they use threadkeep, or take that back",
        example="threadkeep setup claude",
        entry="setup:run",
        arguments=_setup,
    ),
    "service": Command(
        does="run the gateway as a service of this user, started at login: systemd on Linux, launchd on macOS",
        example="threadkeep service install --port 4621",
        entry="service:run",
        arguments=_service,
    ),
    "key": Command(
        does="make a key of the gateway for a tenant; it is shown once, the file keeps its digest",
        example="threadkeep key alice --keys keys.toml",
        entry="key:run",
        arguments=_key,
        opens_store=False,
        prints_json=True,
    ),
}
