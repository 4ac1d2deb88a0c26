"""What one client needs to talk to a gateway, as plain values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

# Stand in a plan for what is known only once the gateway listens: its URL with and without `/v1`, and the folder of `files`.
OPENAI_URL: Final = "@threadkeep-openai-url@"
ANTHROPIC_URL: Final = "@threadkeep-anthropic-url@"
FOLDER: Final = "@threadkeep-folder@"

# The window to assume for models whose provider does not say theirs. Too small costs an early compaction, too large a refusal.
WINDOW_TOKENS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a client is started: the user's environment, home and folder, the program, and what the user wants it to be told."""

    environ: Mapping[str, str] = field(repr=False)
    home: Path
    folder: Path
    program: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start a client with.

    Attributes:
        arguments: All arguments, the user's own included.
        environment: Variables to set beside the user's own.
        files: Written into a folder of their own before the client starts, removed when it has ended.
        openai_upstream: Where this client's requests to OpenAI's API went so far; None where it does not say.
        anthropic_upstream: The same for Anthropic's API.
        window_tokens: The window of a model whose provider does not say it.
        notes: What the user should know before the client starts.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    openai_upstream: str | None = None
    anthropic_upstream: str | None = None
    window_tokens: int = WINDOW_TOKENS
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A plan with every address filled in."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)


def fill(plan: Plan, place: Place, *, url: str, folder: Path) -> Start:
    """Return a plan as it is started; `url` is the gateway's, without `/v1`."""

    def filled(text: str) -> str:
        return text.replace(OPENAI_URL, f"{url}/v1").replace(ANTHROPIC_URL, url).replace(FOLDER, str(folder))

    environment = {
        **place.environ,
        # A proxy for the rest of the world is none for a gateway on this machine.
        **{name: _with_loopback(place.environ.get(name, "")) for name in ("NO_PROXY", "no_proxy")},
        **{name: filled(value) for name, value in plan.environment.items()},
    }
    return Start(
        words=(place.program, *map(filled, plan.arguments)),
        environment=environment,
        files={name: filled(text) for name, text in plan.files.items()},
    )


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the object in a settings file, comments and trailing commas allowed; an empty one where there is none to read."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}


def parse_json(text: str) -> Mapping[str, Any]:
    """Return the object a text holds, comments and trailing commas allowed.

    Raises:
        ValueError: It holds something else.
    """
    value = json.loads(_TRAILING.sub(_keep_strings, _COMMENT.sub(_keep_strings, text)))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def table_in(settings: object, *names: str) -> Mapping[str, Any]:
    """Return the object below these names; an empty one where there is none."""
    for name in names:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings if isinstance(settings, Mapping) else {}


def text_in(settings: object, *names: str) -> str | None:
    """Return the text below these names; None where there is none."""
    found = table_in(settings, *names[:-1]).get(names[-1])
    return found if isinstance(found, str) and found else None


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return one layer of settings laid over another, objects within them too."""
    both = {name: merge(table_in(lower, name), value) if isinstance(value, Mapping) else value for name, value in upper.items()}
    return {**lower, **both}


_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")


def _keep_strings(found: re.Match[str]) -> str:
    return found[1] or ""


def _with_loopback(listed: str) -> str:
    return ",".join(dict.fromkeys([*filter(None, listed.split(",")), "127.0.0.1", "localhost"]))
