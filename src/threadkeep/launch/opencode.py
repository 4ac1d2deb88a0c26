"""How opencode is pointed at a gateway: settings in a variable, which opencode lays over its own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from threadkeep.errors import CannotLaunch
from threadkeep.launch.plan import OPENAI_URL, Place, Plan, merge, parse_json, read_json, table_in, text_in

CONTENT: Final = "OPENCODE_CONFIG_CONTENT"
ANTHROPIC_PACKAGE: Final = "@ai-sdk/anthropic"


def plan_opencode(place: Place) -> Plan:
    """Set the base URL of `openai`, of `anthropic`, and of the provider of the user's own model where that has one.

    opencode puts no `/v1` of its own behind either.

    Raises:
        CannotLaunch: The variable already holds something that is no JSON.
    """
    given = place.environ.get(CONTENT, "")
    try:
        content = parse_json(given) if given.strip() else {}
    except ValueError:
        raise CannotLaunch("opencode", reason=f"{CONTENT} holds no JSON object; mend or unset it") from None
    config = _layered(place, content)
    providers = {name: table_in(config, "provider", name) for name in table_in(config, "provider")}
    mine = (text_in(config, "model") or "").partition("/")[0]
    routed = {"openai", "anthropic", *({mine} if text_in(providers.get(mine), "options", "baseURL") else ())}
    # The user's model decides where a wire leads; of the others only those that lead to the same place can come along.
    upstreams: dict[bool, str | None] = {}
    for name in sorted(routed, key=lambda each: each != mine):
        upstreams.setdefault(_speaks_anthropic(name, providers.get(name, {})), text_in(providers.get(name), "options", "baseURL"))
    chosen: dict[str, Any] = {}
    for name in routed:
        said = text_in(providers.get(name), "options", "baseURL")
        if said in (None, upstreams[_speaks_anthropic(name, providers.get(name, {}))]):
            chosen[name] = {"options": {"baseURL": OPENAI_URL}}
    return Plan(
        arguments=place.arguments,
        environment={CONTENT: json.dumps(merge(content, {"provider": chosen}))},
        openai_upstream=upstreams.get(False) or place.environ.get("OPENAI_BASE_URL") or None,
        anthropic_upstream=upstreams.get(True) or place.environ.get("ANTHROPIC_BASE_URL") or None,
    )


def _layered(place: Place, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user's settings as far as they decide about providers; those of the folder worked in are a stranger's."""
    folder = Path(place.environ.get("XDG_CONFIG_HOME") or place.home / ".config") / "opencode"
    files = [folder / name for name in ("config.json", "opencode.json", "opencode.jsonc")]
    if named := place.environ.get("OPENCODE_CONFIG"):
        files.append(place.folder / named)
    merged: dict[str, Any] = {}
    for settings in [*map(read_json, files), content]:
        merged = merge(merged, settings)
    return merged


def _speaks_anthropic(name: str, provider: Mapping[str, Any]) -> bool:
    return (text_in(provider, "npm") or (ANTHROPIC_PACKAGE if name == "anthropic" else "")) == ANTHROPIC_PACKAGE
