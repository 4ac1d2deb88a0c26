"""How pi is pointed at a gateway: an extension in a folder of ours, loaded for this run by `-e`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from threadkeep.launch.plan import ANTHROPIC_URL, FOLDER, OPENAI_URL, Place, Plan, read_json, table_in, text_in

EXTENSION: Final = "threadkeep.ts"
# Commands about packages; they take no `-e` and ask no model.
WITHOUT_MODEL: Final = frozenset({"install", "remove", "uninstall", "update", "list", "config"})
ANTHROPIC_API: Final = "anthropic-messages"


def plan_pi(place: Place) -> Plan:
    """Set the base URL of `openai`, of `anthropic`, and of the user's default provider where it is one of their own."""
    if place.arguments[:1] and place.arguments[0] in WITHOUT_MODEL:
        return Plan(arguments=place.arguments)
    agent = Path(place.environ.get("PI_CODING_AGENT_DIR") or place.home / ".pi" / "agent").expanduser()
    providers = table_in(read_json(agent / "models.json"), "providers")
    mine = text_in(read_json(agent / "settings.json"), "defaultProvider") or ""
    urls, upstreams = {"openai": OPENAI_URL, "anthropic": ANTHROPIC_URL}, {OPENAI_URL: "", ANTHROPIC_URL: ""}
    own = text_in(providers, mine, "baseUrl")
    if own is not None and mine not in urls:
        speaks = OPENAI_URL if text_in(providers, mine, "api") != ANTHROPIC_API else ANTHROPIC_URL
        urls, upstreams[speaks] = {mine: speaks}, own
    for name, url in urls.items():
        upstreams[url] = text_in(providers, name, "baseUrl") or upstreams[url]
    lines = [f"  pi.registerProvider({json.dumps(name)}, {{ baseUrl: {json.dumps(url)} }});" for name, url in urls.items()]
    return Plan(
        arguments=("-e", f"{FOLDER}/{EXTENSION}", *place.arguments),
        files={EXTENSION: "\n".join(["export default function (pi: any) {", *lines, "}", ""])},
        openai_upstream=upstreams[OPENAI_URL] or place.environ.get("OPENAI_BASE_URL") or None,
        anthropic_upstream=upstreams[ANTHROPIC_URL] or place.environ.get("ANTHROPIC_BASE_URL") or None,
    )
