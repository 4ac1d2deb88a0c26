"""How Claude Code is pointed at a gateway."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from threadkeep.errors import CannotLaunch
from threadkeep.launch.plan import ANTHROPIC_URL, Place, Plan, merge, parse_json, read_json, table_in, text_in

BASE_URL: Final = "ANTHROPIC_BASE_URL"
# Behind a foreign base URL Claude Code leaves out what it uses with Anthropic's own: the window of a million tokens among it.
FIRST_PARTY: Final = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
# These make it ask another cloud, whatever the base URL says.
ELSEWHERE: Final = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


def plan_claude_code(place: Place) -> Plan:
    """Set the base URL. Claude Code's settings files win over the environment, so where one names a URL, `--settings` says ours.

    Raises:
        CannotLaunch: It is set to ask a cloud that the gateway does not speak to, or its `--settings` cannot be read.
    """
    own = Path(place.environ.get("CLAUDE_CONFIG_DIR") or place.home / ".claude") / "settings.json"
    said = {**place.environ, **table_in(read_json(own), "env")}
    for name in ELSEWHERE:
        if said.get(name) not in (None, "", "0", "false"):
            raise CannotLaunch(
                "Claude Code", reason=f"{name} sends it to a cloud that has no base URL to set; unset it for this run"
            )
    upstream = said.get(BASE_URL) or None
    projects = [place.folder / ".claude" / name for name in ("settings.json", "settings.local.json")]
    strange = [path for path in projects if text_in(read_json(path), "env", BASE_URL)]
    named = bool(text_in(read_json(own), "env", BASE_URL)) or bool(strange)
    # Where the user's requests went to Anthropic so far, they still do.
    environment = {BASE_URL: ANTHROPIC_URL, **({} if upstream else {FIRST_PARTY: place.environ.get(FIRST_PARTY, "1")})}
    return Plan(
        arguments=_with_settings(place, needed=named),
        environment=environment,
        anthropic_upstream=upstream,
        notes=tuple(f"{BASE_URL} in {path} is not used in this run" for path in strange),
    )


def _with_settings(place: Place, *, needed: bool) -> tuple[str, ...]:
    """Return the arguments with our base URL among their `--settings`: Claude Code reads only the last one."""
    words = list(place.arguments)
    at = next((index for index, word in enumerate(words) if word == "--settings" or word.startswith("--settings=")), None)
    if at is None:
        return ("--settings", _settings({}), *words) if needed else place.arguments
    joined = words[at].startswith("--settings=")
    given = words[at].partition("=")[2] if joined else "".join(words[at + 1 : at + 2])
    merged = _settings(_given_settings(given, place.folder))
    words[at : at + (1 if joined else 2)] = ["--settings", merged]
    return tuple(words)


def _given_settings(given: str, folder: Path) -> Mapping[str, Any]:
    try:
        return parse_json(given if given.lstrip().startswith("{") else (folder / given).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise CannotLaunch("Claude Code", reason=f"its --settings {given!r} is neither JSON nor a file of it") from None


def _settings(given: Mapping[str, Any]) -> str:
    return json.dumps(merge(given, {"env": {BASE_URL: ANTHROPIC_URL}}))
