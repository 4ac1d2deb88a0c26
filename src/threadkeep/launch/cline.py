"""How Cline is pointed at a gateway: a copy of its provider settings, in a folder of ours, with other base URLs."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Final

from threadkeep.errors import CannotLaunch
from threadkeep.launch.plan import FOLDER, OPENAI_URL, Place, Plan, read_json, table_in, text_in

VARIABLE: Final = "CLINE_PROVIDER_SETTINGS_PATH"
COPY: Final = "providers.json"
ANTHROPIC: Final = "anthropic"
# Providers of Cline's that speak OpenAI's API. Its Anthropic client, too, is given a URL that ends in `/v1`.
SPEAK_OPENAI: Final = ("openai-native", "openai")
HOW: Final = "run `cline auth anthropic` or `cline auth openai-native` with a key first"


def plan_cline(place: Place) -> Plan:
    """Give Cline its own provider settings with the gateway in place of the provider's URL.

    Raises:
        CannotLaunch: Cline uses a provider whose URL cannot be set.
    """
    file = Path(place.environ.get(VARIABLE) or _data(place) / "settings" / "providers.json")
    settings = read_json(file)
    providers = dict(table_in(settings, "providers"))
    chosen = _option(place.arguments, "-P", "--provider") or text_in(settings, "lastUsedProvider") or "cline"
    if chosen not in (ANTHROPIC, *SPEAK_OPENAI):
        raise CannotLaunch("Cline", reason=f"its provider {chosen!r} cannot be asked through a gateway; {HOW}")
    if chosen not in providers:
        raise CannotLaunch("Cline", reason=f"it has no key for {chosen!r}; {HOW}")
    said = text_in(providers, chosen, "settings", "baseUrl")
    providers[chosen] = {**providers[chosen], "settings": {**table_in(providers, chosen, "settings"), "baseUrl": OPENAI_URL}}
    return Plan(
        arguments=place.arguments,
        environment={VARIABLE: f"{FOLDER}/{COPY}"},
        files={COPY: json.dumps({**settings, "providers": providers}, indent=2)},
        openai_upstream=said if chosen != ANTHROPIC else None,
        anthropic_upstream=said if chosen == ANTHROPIC else None,
    )


def _data(place: Place) -> Path:
    named = _option(place.arguments, "--data-dir") or place.environ.get("CLINE_DATA_DIR")
    config = _option(place.arguments, "--config") or place.environ.get("CLINE_DIR")
    return Path(named) if named else Path(config or place.home / ".cline") / "data"


def _option(arguments: tuple[str, ...], *names: str) -> str | None:
    for word, following in pairwise((*arguments, "")):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else following or None
    return None
