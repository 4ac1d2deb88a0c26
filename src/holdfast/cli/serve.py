"""`holdfast serve`: the gateway, until a signal ends it."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module

from holdfast.cli.opening import settings_of
from holdfast.cli.output import open_screen, print_json
from holdfast.gateway.serve import run_gateway
from holdfast.runtime import Config, Holdfast, config_of


def run(args: Namespace) -> int:
    """Serve until SIGINT or SIGTERM, then let running answers finish."""
    config = config_of(settings_of(args))
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(_serve(config, as_json=args.json))
    return 0


async def _serve(config: Config, *, as_json: bool) -> None:
    def announce(url: str) -> None:
        _announce(url, config, as_json=as_json)

    async with Holdfast(config) as hf:
        await run_gateway(
            hf,
            host=config.host,
            port=config.port,
            upstream=config.openai_upstream,
            auto_compact=config.auto_compact == "on",
            on_ready=announce,
        )


def _announce(url: str, config: Config, *, as_json: bool) -> None:
    """Say where the gateway listens and how an agent is pointed at it."""
    base_url = f"{url}/v1"
    if as_json:
        print_json({"url": url, "base_url": base_url, "upstream": config.openai_upstream, "store": config.store})
        return
    screen = open_screen()
    screen.line(("holdfast", "bold green"), f" listens on {url}, asks {config.openai_upstream}, records in {config.store}")
    screen.heading("Any client of the Responses API", "set its base URL")
    screen.line(f"export OPENAI_BASE_URL={base_url}", indent=2)
    screen.heading("Codex", "in ~/.codex/config.toml")
    for line in (
        'model_provider = "holdfast"',
        "",
        "[model_providers.holdfast]",
        'name = "holdfast"',
        f'base_url = "{base_url}"',
        'env_key = "OPENAI_API_KEY"',
        'wire_api = "responses"',
        "supports_websockets = false",
    ):
        screen.line(line, indent=2)
    screen.gap()
    compacts = (
        "on: before a window overflows"
        if config.auto_compact == "on"
        else "off: type /compact to the agent, or --auto-compact on"
    )
    screen.line((f"auto-compaction is {compacts}. Ctrl-C stops.", "dim"))


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes uvloop's event loop, where it can be installed at all; else None, the standard one."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
    return factory
