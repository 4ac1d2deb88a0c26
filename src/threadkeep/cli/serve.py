"""`threadkeep serve` and `threadkeep key`: the gateway, and the keys of its clients."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.settings import read_config
from threadkeep.cli.store import describe_store, find_token, open_keys
from threadkeep.client import Config, Threadkeep
from threadkeep.errors import InvalidArgument, UnusableFile
from threadkeep.gateway.control.identity import make_identity
from threadkeep.gateway.http.keys import Keys, KeysFile, digest_key, make_key
from threadkeep.gateway.serve import Serving, run_gateway
from threadkeep.store.locations import IN_MEMORY
from threadkeep.viewer.app import mount_viewer

AUTO_COMPACTION = {
    "off": "off: type tk compact to the agent, or start with --auto-compact on",
    "background": "prepared in the background while the agent works",
    "on": "on: before a window overflows",
}
KEYS_HEADER = "[keys]\n"


def run(args: Namespace) -> int:
    """Serve until SIGINT or SIGTERM, then let running answers finish."""
    config = read_config(args)
    if args.no_keys:
        config = replace(config, keys_file=None)
    if args.stop_with_stdin:
        _stop_with_stdin()
    token, token_file = find_token(config, given=args.control_token)
    serving = Serving(
        upstream=config.openai_upstream,
        upstreams=config.upstreams,
        keys=open_keys(config),
        control_token=token,
        log_content=config.log_content == "on",
        pages=mount_viewer(allow_changes=args.allow_changes),
        identity=make_identity(config),
    )
    if config.access_log == "on":
        _log_to_stderr()

    async def serve() -> None:
        def announce(url: str) -> None:
            if args.json:
                _announce_json(url, config, token_file=token_file)
            else:
                _announce(url, config, token=token, token_file=token_file)

        async with Threadkeep(config, environ=os.environ) as tk:
            await run_gateway(tk, serving, host=config.host, port=config.port, on_ready=announce)

    with asyncio.Runner(loop_factory=_find_fast_loop()) as runner:
        runner.run(serve())
    return 0


def _stop_with_stdin() -> None:
    """Stop as a signal would once standard input ends: the process at its other end is gone."""

    def wait_for_end() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_end, daemon=True).start()


def _log_to_stderr() -> None:
    """Put the access log on stderr, a bare line of JSON each: the lines carry their own time."""
    access = logging.getLogger("threadkeep.access")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    access.addHandler(handler)
    access.setLevel(logging.INFO)
    access.propagate = False


def _announce_json(url: str, config: Config, *, token_file: Path | None) -> None:
    print_json(
        {
            "url": url,
            "base_url": f"{url}/v1",
            "upstream": config.openai_upstream,
            **{f"{provider}_upstream": url for provider, url in config.upstreams.items()},
            "store": describe_store(config),
            "control_token_file": str(token_file) if token_file else None,
        }
    )


def _announce(url: str, config: Config, *, token: str, token_file: Path | None) -> None:
    """Say where the gateway listens and how to point a client at it."""
    screen = open_screen()
    lines = {
        "records in": describe_store(config),
        "asks": ", ".join(config.upstreams.values()),
        "OpenAI's API": f"export OPENAI_BASE_URL={url}/v1",
        "Anthropic's API": f"export ANTHROPIC_BASE_URL={url}",
        "any client": f"threadkeep setup CLIENT --url {url}",
        "browser": f"{url}/ui/",
        "control API": f"{url}/threadkeep/v1/threads",
        "control token": f"in {token_file}" if token_file else "the one it was started with",
    }
    if config.keys_file:
        lines["keys"] = f"{config.keys_file}; clients send X-Threadkeep-Key, or have /k/KEY before /v1 in the URL"
    if config.store == IN_MEMORY and token_file is None:
        lines["control token"] = token
    screen.write(("threadkeep", "bold green"), f" listens on {url}")
    for name, text in lines.items():
        screen.write_uncut((f"{name:<16} ", "dim"), text, indent=2)
    screen.write((f"auto-compaction: {AUTO_COMPACTION[config.auto_compact]}. Ctrl-C stops.", "dim"))


def _find_fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop where it can be installed at all; else None, for the standard one."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
    return factory


def run_key(args: Namespace) -> int:
    """Make a key, add its digest to the file, and show the key: it is shown only once."""
    config = read_config(args)
    if config.keys_file is None:
        text = "name the file for the digests of keys: --keys FILE, or keys_file in your own threadkeep.toml"
        raise InvalidArgument("keys_file", text)
    path = Path(config.keys_file).expanduser()
    key = make_key()
    _add_key(path, key, tenant=args.tenant)
    if args.json:
        print_json({"key": key, "tenant": args.tenant, "file": str(path)})
        return 0
    screen = open_screen()
    screen.write((key, "bold green"))
    screen.write((f"a key of tenant {args.tenant}, shown only once; {path} keeps its digest", "dim"))
    screen.write(("a gateway reads that file when it starts", "dim"))
    screen.write(("a client sends it as X-Threadkeep-Key, or has /k/KEY before /v1 in its base URL", "dim"))
    return 0


def _add_key(path: Path, key: str, *, tenant: str) -> None:
    """Add a key's digest to a file of keys. A new file is readable for its owner alone.

    Raises:
        BadInput: The file is not one of keys or cannot be written, or the name cannot be a tenant's.
    """
    Keys({digest_key(key): tenant})
    exists = path.exists()
    if exists:
        KeysFile(path)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f'{"" if exists else KEYS_HEADER}"{digest_key(key)}" = "{tenant}"\n')
    except OSError as error:
        raise UnusableFile(
            str(path), reason=f"cannot be written: {error.strerror}; no key was made, name another by --keys"
        ) from error
