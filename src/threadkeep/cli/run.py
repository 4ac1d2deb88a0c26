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

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.settings import read_settings
from threadkeep.cli.store import describe_store, locate_token
from threadkeep.client import Config, build_config
from threadkeep.errors import ClientMissing
from threadkeep.gateway.control.identity import load_token, make_identity, make_token
from threadkeep.gateway.conversation.rules import CLAUDE_CODE, make_rules
from threadkeep.gateway.http.guards import is_loopback
from threadkeep.launch.clients import CLIENTS, plan_variables
from threadkeep.launch.plan import Place, Plan, fill_plan
from threadkeep.launch.processes import Figures, Gateway, find_gateway, run_client, start_gateway
from threadkeep.store.locations import IN_MEMORY
from threadkeep.viewer.number_format import format_count

MODE = "background"
SHOWN_THREADS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run before anything is started. `changed` names the settings that are not defaults."""

    name: str
    config: Config
    changed: frozenset[str]
    plan: Plan
    place: Place
    token: str
    log: Path


def run(args: Namespace) -> int:
    """Run a client to its end and return its exit code; without one, list the clients."""
    if args.client is None and not args.behind_dashes:
        return _list_clients(as_json=args.json)
    prepared = _prepare(args)
    for note in prepared.plan.notes:
        print(f"threadkeep: {note}", file=sys.stderr)
    run_id = secrets.token_hex(8)
    with _open_gateway(prepared) as gateway, tempfile.TemporaryDirectory(prefix="threadkeep-run-") as folder:
        start = fill_plan(prepared.plan, prepared.place, url=f"{gateway.url}/run/{run_id}", folder=Path(folder))
        for name, text in start.files.items():
            file = Path(folder, name)
            file.touch(mode=0o600)
            file.write_text(text, encoding="utf-8")
        code = run_client(start)
        figures = gateway.read_figures(run_id)
    _print_summary(prepared, figures, exit_code=code, args=args)
    return code


def _prepare(args: Namespace) -> _Run:
    """Find the client and plan its start.

    Raises:
        LaunchError: It is not installed, or cannot be served.
    """
    settings = read_settings(args)
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
    token_place = Path(tempfile.gettempdir(), f"threadkeep-{os.getuid()}") if in_memory else locate_token(config)
    token = make_token() if in_memory else load_token(token_place)
    changed = frozenset(setting.name for setting in settings if setting.origin != "default")
    return _Run(
        name=args.client or command,
        config=_choose_upstreams(config, plan, changed=changed, token=token),
        changed=changed,
        plan=plan,
        place=place,
        token=token,
        log=token_place.with_name(f"{token_place.name}.run.log"),
    )


def _choose_upstreams(config: Config, plan: Plan, *, changed: frozenset[str], token: str) -> Config:
    """Return the settings with the providers the client asked so far, unless a setting of ours names another."""
    openai = _skip_own_gateway(plan.openai_upstream, 0, token=token)
    anthropic = _skip_own_gateway(plan.anthropic_upstream, 1, token=token)
    return replace(
        config,
        openai_upstream=openai if openai and "openai_upstream" not in changed else config.openai_upstream,
        anthropic_upstream=anthropic if anthropic and "anthropic_upstream" not in changed else config.anthropic_upstream,
    )


def _skip_own_gateway(url: str | None, which: int, *, token: str) -> str | None:
    """Return a client's provider. Where that is a gateway on this store already, return the provider behind it."""
    parts = urlsplit(url or "")
    if parts.hostname is None or not is_loopback(parts.hostname):
        return url
    found = find_gateway(f"{parts.scheme}://{parts.netloc}", token=token)
    return url if found is None else found.upstreams[which]


@contextmanager
def _open_gateway(prepared: _Run) -> Iterator[Gateway]:
    """Give the user's running gateway where it does what this run needs, else one that ends with the run."""
    running = _find_running_gateway(prepared)
    if running is not None:
        yield running
        return
    with start_gateway(
        _list_flags(prepared), environ=_make_environment(prepared), token=prepared.token, log=prepared.log
    ) as gateway:
        yield gateway


def _find_running_gateway(prepared: _Run) -> Gateway | None:
    """Return the gateway on the configured port if it is the user's, on this store, with these settings, and compacts."""
    url = f"http://127.0.0.1:{prepared.config.port}"
    found = find_gateway(url, token=prepared.token) if prepared.config.store != IN_MEMORY else None
    if found is None or found.needs_keys:
        return None
    wanted = make_identity(prepared.config)
    is_alike = (found.version, found.settings) == (wanted.version, wanted.settings)
    compacts = "auto_compact" not in prepared.changed or found.compacts[0] == prepared.config.auto_compact
    return Gateway(url=url, token=prepared.token) if is_alike and compacts and "off" not in found.compacts else None


def _list_flags(prepared: _Run) -> list[str]:
    config = prepared.config
    mode = config.auto_compact if "auto_compact" in prepared.changed else MODE
    # `serve` leaves Claude Code alone unless told otherwise. A person who runs it this way wants it compacted.
    modes = {CLAUDE_CODE: mode, **make_rules(config).auto_compact_for}
    return [
        *("--store", config.store, "--auto-compact", mode, "--no-keys", "--access-log", "off", "--stop-with-stdin"),
        *(word for provider, url in config.upstreams.items() for word in (f"--{provider}-upstream", url)),
        *("--upstream-dialect", config.upstream_dialect),
        *(word for name, each in modes.items() for word in ("--auto-compact-for", f"{name}={each}")),
    ]


def _make_environment(prepared: _Run) -> dict[str, str]:
    window = {"THREADKEEP_MODEL_CONTEXT_WINDOW": str(prepared.plan.window_tokens)}
    return {**prepared.place.environ, **({} if "model_context_window" in prepared.changed else window)}


def _print_summary(prepared: _Run, figures: Figures | None, *, exit_code: int, args: Namespace) -> None:
    """Say on stderr what the run came to: stdout is the client's."""
    if args.json:
        answer = {"client": prepared.name, "exit_code": exit_code, "store": describe_store(prepared.config)}
        counted = msgspec.to_builtins(figures) if figures is not None else {"error": "gateway_ended", "log": str(prepared.log)}
        print(msgspec.json.encode({**answer, **counted}).decode(), file=sys.stderr)
        return
    for line in _summarise(prepared, figures, store=args.store):
        print(line, file=sys.stderr)


def _summarise(prepared: _Run, figures: Figures | None, *, store: str | None) -> Iterator[str]:
    if figures is None:
        yield "threadkeep: the gateway ended before the client did"
        yield f"  its log: {prepared.log}"
        return
    if not figures.requests:
        yield f"threadkeep: {prepared.name} sent nothing through the gateway in this run"
        return
    where = f" --store {store}" if store else ""
    yield f"threadkeep: {format_count(figures.requests, 'request')}, {format_count(figures.compactions, 'compaction')}"
    yield f"  about {figures.provider_tokens:,} tokens sent, {figures.client_tokens:,} asked for by the client"
    for thread in figures.threads[:SHOWN_THREADS]:
        yield f"  threadkeep show {thread}{where}"
    if len(figures.threads) > SHOWN_THREADS:
        yield f"  and {len(figures.threads) - SHOWN_THREADS} more: threadkeep threads{where}"
    yield f"  threadkeep view{where}    opens them in a browser"


def _list_clients(*, as_json: bool) -> int:
    listed = [(name, client, shutil.which(client.command)) for name, client in CLIENTS.items()]
    if as_json:
        print_json({"clients": [{"name": name, "installed": program is not None} for name, _, program in listed]})
        return 0
    screen = open_screen()
    screen.write_heading("Clients", "threadkeep run CLIENT [-- ARGS]")
    for name, client, program in listed:
        how = f"threadkeep run {name}" if program else f"not installed: {client.install}"
        screen.write(f"{client.title:<12} ", (how, "" if program else "dim"), indent=2)
    screen.write_heading("Any other program that reads OPENAI_BASE_URL or ANTHROPIC_BASE_URL")
    screen.write("threadkeep run -- COMMAND", indent=2)
    return 0
