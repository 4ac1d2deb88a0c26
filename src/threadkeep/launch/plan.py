"""The plan for starting one client on a gateway, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Placeholders in a plan for values known only once the gateway listens: its URL with and without `/v1`, the folder of `files`.
OPENAI_URL: Final = "@threadkeep-openai-url@"
ANTHROPIC_URL: Final = "@threadkeep-anthropic-url@"
FOLDER: Final = "@threadkeep-folder@"

# The window to assume where a provider does not state its model's. Too small costs an early compaction, too large a refusal.
WINDOW_TOKENS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a client is started: the user's environment, home and folder, the program, and the user's arguments for it."""

    environ: Mapping[str, str] = field(repr=False)
    home: Path
    folder: Path
    program: str
    arguments: tuple[str, ...] = ()

    def find_variable(self, *names: str) -> str | None:
        """Return the first of these variables that is set and not empty."""
        return next((self.environ[name] for name in names if self.environ.get(name)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to start a client.

    Attributes:
        arguments: All arguments, the user's own included.
        environment: Variables to set beside the user's own.
        files: Written into a folder of their own before the client starts, removed when it has ended.
        openai_upstream: Where this client's requests to OpenAI's API went so far; None where its settings do not say.
        anthropic_upstream: The same for Anthropic's API.
        window_tokens: The window of a model whose provider does not state it.
        notes: Facts for the user before the client starts.
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
    """A plan without placeholders."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)


def fill_plan(plan: Plan, place: Place, *, url: str, folder: Path) -> Start:
    """Return a plan with every placeholder replaced; `url` is the gateway's, without `/v1`."""

    def fill(text: str) -> str:
        return text.replace(OPENAI_URL, f"{url}/v1").replace(ANTHROPIC_URL, url).replace(FOLDER, str(folder))

    environment = {
        **place.environ,
        # A gateway on this machine is reached without a proxy.
        **{name: _add_loopback(place.environ.get(name, "")) for name in ("NO_PROXY", "no_proxy")},
        **{name: fill(value) for name, value in plan.environment.items()},
    }
    return Start(
        words=(place.program, *map(fill, plan.arguments)),
        environment=environment,
        files={name: fill(text) for name, text in plan.files.items()},
    )


def _add_loopback(listed: str) -> str:
    return ",".join(dict.fromkeys([*filter(None, listed.split(",")), "127.0.0.1", "localhost"]))
