"""How Codex is pointed at a gateway: by `-c` overrides of its own configuration, which stays as it is otherwise."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from threadkeep.errors import CannotLaunch
from threadkeep.launch.plan import OPENAI_URL, Place, Plan, text_in

TITLE: Final = "Codex"
# Where Codex itself sends requests of somebody who signed in with ChatGPT.
CHATGPT_UPSTREAM: Final = "https://chatgpt.com/backend-api/codex"
# The window Codex assumes for its own models.
WINDOW_TOKENS: Final = 272_000
STATUS_SECONDS: Final = 20
PROVIDER: Final = "threadkeep"


def plan_codex(place: Place) -> Plan:
    """Set the base URL of the provider that Codex is configured with.

    The built-in one stays `openai`, so that Codex goes on to list the same sessions. Only without a login a provider of our own
    reads OPENAI_API_KEY, which the built-in one does not.

    Raises:
        CannotLaunch: Codex has neither a login nor a key, or asks a provider whose URL cannot be set.
    """
    config = _config(Path(place.environ.get("CODEX_HOME") or place.home / ".codex"))
    provider = text_in(config, "model_provider") or "openai"
    if provider != "openai":
        return _plan_provider(place, config, provider)
    login = _login(place)
    upstream = text_in(config, "openai_base_url") or place.environ.get("OPENAI_BASE_URL") or None
    if login is None:
        if not place.environ.get("OPENAI_API_KEY"):
            raise CannotLaunch(TITLE, reason="it has no login and OPENAI_API_KEY is not set; run `codex login`, or set the key")
        settings = {
            "model_provider": PROVIDER,
            f"model_providers.{PROVIDER}.name": PROVIDER,
            f"model_providers.{PROVIDER}.base_url": OPENAI_URL,
            f"model_providers.{PROVIDER}.env_key": "OPENAI_API_KEY",
            f"model_providers.{PROVIDER}.wire_api": "responses",
            f"model_providers.{PROVIDER}.supports_websockets": False,
        }
    else:
        settings = {"openai_base_url": OPENAI_URL}
        upstream = upstream or (CHATGPT_UPSTREAM if login == "chatgpt" else None)
    return _plan(place, settings, upstream=upstream)


def _plan_provider(place: Place, config: Mapping[str, Any], name: str) -> Plan:
    base_url = text_in(config, "model_providers", name, "base_url")
    if base_url is None:
        reason = f"it is configured for the provider {name!r}, whose base URL cannot be set; choose another model_provider"
        raise CannotLaunch(TITLE, reason=reason)
    settings = {f"model_providers.{name}.base_url": OPENAI_URL, f"model_providers.{name}.supports_websockets": False}
    return _plan(place, settings, upstream=base_url)


def _plan(place: Place, settings: Mapping[str, object], *, upstream: str | None) -> Plan:
    # The values are TOML, which writes these as JSON does.
    overrides = [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]
    return Plan(arguments=(*overrides, *place.arguments), openai_upstream=upstream, window_tokens=WINDOW_TOKENS)


def _config(folder: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        # Codex will say what is wrong with it.
        return {}


def _login(place: Place) -> str | None:
    """Return `chatgpt` or `key`, as Codex says it is signed in; None where it is not."""
    if place.environ.get("CODEX_API_KEY"):
        return "key"
    try:
        asked = subprocess.run(
            (place.program, "login", "status"),
            env=dict(place.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=STATUS_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if asked.returncode != 0:
        return None
    return "chatgpt" if b"chatgpt" in (asked.stdout + asked.stderr).lower() else "key"
