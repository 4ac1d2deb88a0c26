"""The clients `threadkeep run` knows by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from threadkeep.launch.claude_code import plan_claude_code
from threadkeep.launch.cline import plan_cline
from threadkeep.launch.codex import plan_codex
from threadkeep.launch.opencode import plan_opencode
from threadkeep.launch.pi import plan_pi
from threadkeep.launch.plan import ANTHROPIC_URL, OPENAI_URL, Place, Plan, read_json, table_in, text_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client by the name people type: what it is called, how it is installed, and what it needs to find a gateway."""

    title: str
    command: str
    install: str
    plan: Callable[[Place], Plan]


def plan_variables(place: Place) -> Plan:
    """Set the variables that most programs of either API read."""
    openai = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    return Plan(
        arguments=place.arguments,
        environment={**dict.fromkeys(openai, OPENAI_URL), "ANTHROPIC_BASE_URL": ANTHROPIC_URL},
        openai_upstream=next((place.environ[name] for name in openai if place.environ.get(name)), None),
        anthropic_upstream=place.environ.get("ANTHROPIC_BASE_URL") or None,
    )


def plan_qwen(place: Place) -> Plan:
    """Set the variables, which win over Qwen Code's settings; the URL in those is where requests went so far."""
    auth = table_in(read_json(place.home / ".qwen" / "settings.json"), "security", "auth")
    said = text_in(auth, "baseUrl")
    speaks_anthropic = text_in(auth, "selectedType") == "anthropic"
    plan = plan_variables(place)
    return replace(
        plan,
        openai_upstream=plan.openai_upstream or (None if speaks_anthropic else said),
        anthropic_upstream=plan.anthropic_upstream or (said if speaks_anthropic else None),
    )


def plan_aider(place: Place) -> Plan:
    """Set what LiteLLM reads, by flags: aider lets an `.env` file win over the environment."""
    openai = next((place.environ[name] for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL") if place.environ.get(name)), None)
    anthropic = next(
        (place.environ[name] for name in ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL") if place.environ.get(name)), None
    )
    flags = ("--openai-api-base", OPENAI_URL, "--set-env", f"ANTHROPIC_API_BASE={ANTHROPIC_URL}")
    return Plan(arguments=(*flags, *place.arguments), openai_upstream=openai, anthropic_upstream=anthropic)


CLIENTS: Final[Mapping[str, Client]] = {
    "claude": Client(
        title="Claude Code", command="claude", install="npm install -g @anthropic-ai/claude-code", plan=plan_claude_code
    ),
    "codex": Client(title="Codex", command="codex", install="npm install -g @openai/codex", plan=plan_codex),
    "opencode": Client(title="opencode", command="opencode", install="npm install -g opencode-ai", plan=plan_opencode),
    "pi": Client(title="pi", command="pi", install="npm install -g @earendil-works/pi-coding-agent", plan=plan_pi),
    "qwen": Client(title="Qwen Code", command="qwen", install="npm install -g @qwen-code/qwen-code", plan=plan_qwen),
    "cline": Client(title="Cline", command="cline", install="npm install -g cline", plan=plan_cline),
    "aider": Client(title="aider", command="aider", install="uv tool install aider-chat", plan=plan_aider),
}
