"""`threadkeep run`: a client on a gateway, for one process, and what came of it."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from threadkeep.cli.opening import settings_of, store_name, token_place
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Config, Setting, build_config
from threadkeep.errors import ClientMissing
from threadkeep.gateway.control.identity import load_token, make_identity, make_token
from threadkeep.gateway.conversation.rules import CLAUDE_CODE, make_rules
from threadkeep.gateway.http.guards import is_loopback
from threadkeep.launch.clients import CLIENTS, plan_variables
from threadkeep.launch.gateway import Figures, Gateway, find_gateway, start_gateway
from threadkeep.launch.plan import Place, Plan, fill
from threadkeep.launch.process import run_client
from threadkeep.store.locations import IN_MEMORY

MODE = "background"
SHOWN_THREADS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run before anything is started. `given` are the settings that somebody set; the others are defaults."""

    name: str
    config: Config
    given: frozenset[str]
    plan: Plan
    place: Place
    token: str
    log: Path


def run(args: Namespace) -> int:
    """Run a client to its end and return its exit code; without one, say which clients there are."""
    if args.client is None and not args.behind_dashes:
        return _list_clients(as_json=args.json)
    asked = _prepared(args)
    for note in asked.plan.notes:
        print(f"threadkeep: {note}", file=sys.stderr)
    run_id = secrets.token_hex(8)
    with _gateway(asked) as gateway, tempfile.TemporaryDirectory(prefix="threadkeep-run-") as folder:
        start = fill(asked.plan, asked.place, url=f"{gateway.url}/run/{run_id}", folder=Path(folder))
        for name, text in start.files.items():
            file = Path(folder, name)
            file.touch(mode=0o600)
            file.write_text(text, encoding="utf-8")
        code = run_client(start)
        figures = gateway.figures(run_id)
    _print_summary(asked, figures, exit_code=code, args=args)
    return code


def _prepared(args: Namespace) -> _Run:
    """Find the client and what it needs.

    Raises:
        LaunchError: It is not installed, or cannot be served.
    """
    settings = settings_of(args)
    config = build_config(settings)
    words: tuple[str, ...] = args.behind_dashes or ()
    client = CLIENTS.get(args.client)
    command, arguments = (client.command, words) if client else (words[0], words[1:])
    program = shutil.which(command)
    if program is None:
        raise ClientMissing(command, install=client.install if client else None)
    place = Place(environ=os.environ, home=Path.home(), folder=Path.cwd(), program=program, arguments=arguments)
    plan = (client.plan if client else plan_variables)(place)
    in_memory = config.store == IN_MEMORY
    beside = Path(tempfile.gettempdir(), f"threadkeep-{os.getuid()}") if in_memory else token_place(config)
    token = make_token() if in_memory else load_token(beside)
    given = frozenset(setting.name for setting in settings if setting.origin != "default")
    return _Run(
        name=args.client or command,
        config=_with_upstreams(config, plan, settings=settings, token=token),
        given=given,
        plan=plan,
        place=place,
        token=token,
        log=beside.with_name(f"{beside.name}.run.log"),
    )


def _with_upstreams(config: Config, plan: Plan, *, settings: list[Setting], token: str) -> Config:
    """Return the settings with the providers the client asked so far, unless a setting of ours names another.

    A client that already asks a gateway on this store does not go through two: the provider behind that one is asked.
    """
    free = {setting.name for setting in settings if setting.origin == "default"}
    openai, anthropic = (
        _behind(url, which, token=token) for which, url in enumerate((plan.openai_upstream, plan.anthropic_upstream))
    )
    return replace(
        config,
        openai_upstream=(openai if "openai_upstream" in free else None) or config.openai_upstream,
        anthropic_upstream=(anthropic if "anthropic_upstream" in free else None) or config.anthropic_upstream,
    )


def _behind(url: str | None, which: int, *, token: str) -> str | None:
    """Return who is asked at `url`: that server, or the provider behind it where it is a gateway of the user's on this store."""
    parts = urlsplit(url or "")
    if parts.hostname is None or not is_loopback(parts.hostname):
        return url
    found = find_gateway(f"{parts.scheme}://{parts.netloc}", token=token)
    return url if found is None else found.upstreams[which]


@contextmanager
def _gateway(asked: _Run) -> Iterator[Gateway]:
    """Give the user's running gateway where it does what this run needs, else one that ends with the run."""
    running = _running_gateway(asked)
    if running is not None:
        yield running
        return
    with start_gateway(_flags(asked), environ=_environment(asked), token=asked.token, log=asked.log) as gateway:
        yield gateway


def _running_gateway(asked: _Run) -> Gateway | None:
    """Return the gateway on the configured port if it is the user's, on this store, with these settings, and compacts."""
    url = f"http://127.0.0.1:{asked.config.port}"
    found = find_gateway(url, token=asked.token) if asked.config.store != IN_MEMORY else None
    if found is None or found.needs_keys:
        return None
    wanted = make_identity(asked.config)
    alike = (found.version, found.settings) == (wanted.version, wanted.settings)
    compacts = "auto_compact" not in asked.given or found.compacts[0] == asked.config.auto_compact
    return Gateway(url=url, token=asked.token) if alike and compacts and "off" not in found.compacts else None


def _flags(asked: _Run) -> list[str]:
    config = asked.config
    mode = config.auto_compact if "auto_compact" in asked.given else MODE
    # Who starts Claude Code this way wants it compacted: without a word about it, it is left alone.
    by_name = {CLAUDE_CODE: mode, **make_rules(config).auto_compact_for}
    return [
        *("--store", config.store, "--auto-compact", mode, "--no-keys", "--access-log", "off", "--stop-with-stdin"),
        *("--openai-upstream", config.openai_upstream, "--anthropic-upstream", config.anthropic_upstream),
        *(word for name, each in by_name.items() for word in ("--auto-compact-for", f"{name}={each}")),
    ]


def _environment(asked: _Run) -> dict[str, str]:
    window = {} if "model_context_window" in asked.given else {"THREADKEEP_MODEL_CONTEXT_WINDOW": str(asked.plan.window_tokens)}
    return {**asked.place.environ, **window}


def _print_summary(asked: _Run, figures: Figures | None, *, exit_code: int, args: Namespace) -> None:
    """Say on stderr what the run came to: stdout is the client's."""
    if args.json:
        told = {"client": asked.name, "exit_code": exit_code, "store": store_name(asked.config)}
        counted = msgspec.to_builtins(figures) if figures is not None else {"error": "gateway_ended", "log": str(asked.log)}
        print(msgspec.json.encode({**told, **counted}).decode(), file=sys.stderr)
        return
    for line in _summary(asked, figures, store=args.store):
        print(line, file=sys.stderr)


def _summary(asked: _Run, figures: Figures | None, *, store: str | None) -> Iterator[str]:
    if figures is None:
        yield "threadkeep: the gateway ended before the client did"
        yield f"  its log: {asked.log}"
        return
    if not figures.requests:
        yield f"threadkeep: {asked.name} sent nothing through the gateway in this run"
        return
    where = f" --store {store}" if store else ""
    yield f"threadkeep: {_counted(figures.requests, 'request')}, {_counted(figures.compactions, 'compaction')}"
    yield f"  about {figures.provider_tokens:,} tokens sent, {figures.client_tokens:,} asked for by the client"
    for thread in figures.threads[:SHOWN_THREADS]:
        yield f"  threadkeep show {thread}{where}"
    if len(figures.threads) > SHOWN_THREADS:
        yield f"  and {len(figures.threads) - SHOWN_THREADS} more: threadkeep threads{where}"
    yield f"  threadkeep view{where}    opens them in a browser"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _list_clients(*, as_json: bool) -> int:
    listed = [(name, client, shutil.which(client.command)) for name, client in CLIENTS.items()]
    if as_json:
        print_json({"clients": [{"name": name, "installed": program is not None} for name, _, program in listed]})
        return 0
    screen = open_screen()
    screen.heading("Clients", "threadkeep run CLIENT [-- ARGS]")
    for name, client, program in listed:
        how = f"threadkeep run {name}" if program else f"not installed: {client.install}"
        screen.line(f"{client.title:<12} ", (how, "" if program else "dim"), indent=2)
    screen.heading("Anything else that reads OPENAI_BASE_URL or ANTHROPIC_BASE_URL")
    screen.line("threadkeep run -- COMMAND", indent=2)
    return 0
