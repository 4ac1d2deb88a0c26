"""`threadkeep serve`: the gateway, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from threadkeep.cli.opening import settings_of, store_name, token_place
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.screen import Screen
from threadkeep.client import Config, Threadkeep, build_config
from threadkeep.gateway.control.identity import find_token_file, load_token, make_identity, make_token
from threadkeep.gateway.http.keys import KeysFile
from threadkeep.gateway.serve import Serving, run_gateway
from threadkeep.store.locations import IN_MEMORY
from threadkeep.viewer.servers import mount_viewer

TOKEN_VARIABLE = "THREADKEEP_CONTROL_TOKEN"
AUTO_COMPACTION = {
    "off": "off: type tk compact to the agent, or --auto-compact on",
    "background": "on in the background: prepared while the agent works",
    "on": "on: before a window overflows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    """The control API's token, and the file it is kept in; None where whoever started the gateway gave it."""

    text: str = field(repr=False)
    file: Path | None = None


def run(args: Namespace) -> int:
    """Serve until SIGINT or SIGTERM, then let running answers finish."""
    config = build_config(settings_of(args))
    if args.no_keys:
        config = replace(config, keys_file=None)
    if args.stop_with_stdin:
        _stop_with_stdin()
    keys = KeysFile(Path(config.keys_file).expanduser()) if config.keys_file else None
    token = _token(config, given=args.control_token or os.environ.get(TOKEN_VARIABLE))
    serving = Serving(
        upstream=config.openai_upstream,
        upstreams=config.upstreams,
        keys=keys,
        control_token=token.text,
        log_content=config.log_content == "on",
        pages=mount_viewer(allow_changes=args.allow_changes),
        identity=make_identity(config),
    )
    if config.access_log == "on":
        _log_to_stderr()
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(_serve(config, serving, token=token, as_json=args.json))
    return 0


async def _serve(config: Config, serving: Serving, *, token: _Token, as_json: bool) -> None:
    def announce(url: str) -> None:
        if as_json:
            _announce_json(url, config, token=token)
        else:
            _announce(open_screen(), url, config, token=token)

    async with Threadkeep(config, environ=os.environ) as tk:
        await run_gateway(tk, serving, host=config.host, port=config.port, on_ready=announce)


def _token(config: Config, *, given: str | None) -> _Token:
    if given:
        return _Token(text=given)
    if config.store == IN_MEMORY:
        return _Token(text=make_token())
    place = token_place(config)
    return _Token(text=load_token(place), file=find_token_file(place))


def _stop_with_stdin() -> None:
    """Stop as a signal would once standard input ends: whoever holds its other end is gone."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def _log_to_stderr() -> None:
    """Put the access log on stderr, a bare line of JSON each: the lines carry their own time."""
    access = logging.getLogger("threadkeep.access")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    access.addHandler(handler)
    access.setLevel(logging.INFO)
    access.propagate = False


def _announce_json(url: str, config: Config, *, token: _Token) -> None:
    print_json(
        {
            "url": url,
            "base_url": f"{url}/v1",
            "upstream": config.openai_upstream,
            "anthropic_upstream": config.anthropic_upstream,
            "store": store_name(config),
            "control_token_file": str(token.file) if token.file else None,
        }
    )


def _announce(screen: Screen, url: str, config: Config, *, token: _Token) -> None:
    """Say where the gateway listens and how an agent is pointed at it."""
    base_url = f"{url}/v1"
    screen.line(
        ("threadkeep", "bold green"), f" listens on {url}, asks {config.openai_upstream}, records in {store_name(config)}"
    )
    screen.heading("Any client of OpenAI's API", "set its base URL")
    screen.line(f"export OPENAI_BASE_URL={base_url}", indent=2)
    screen.heading("Claude Code, and any client of Anthropic's API", f"asks {config.anthropic_upstream}")
    screen.line(f"export ANTHROPIC_BASE_URL={url}", indent=2)
    screen.heading("Codex", "in ~/.codex/config.toml")
    for line in (
        'model_provider = "threadkeep"',
        "",
        "[model_providers.threadkeep]",
        'name = "threadkeep"',
        f'base_url = "{base_url}"',
        'env_key = "OPENAI_API_KEY"',
        'wire_api = "responses"',
        "supports_websockets = false",
    ):
        screen.line(line, indent=2)
    screen.gap()
    where = f"its token is in {token.file}" if token.file else "with the token it was started with"
    screen.line((f"auto-compaction is {AUTO_COMPACTION[config.auto_compact]}. Ctrl-C stops.", "dim"))
    screen.line((f"control API: {url}/threadkeep/v1/threads, {where}", "dim"))
    screen.line((f"look at it in a browser: {url}/ui/, same token", "dim"))
    if config.keys_file:
        screen.line((f"keys: {config.keys_file}; a client sends X-Threadkeep-Key, or has {url}/k/KEY/v1 as its base URL", "dim"))
    if config.store == IN_MEMORY and token.file is None:
        screen.line((f"control token: {token.text}", "dim"))


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes uvloop's event loop, where it can be installed at all; else None, the standard one."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
    return factory
