"""Every client under test, on every wire it speaks, in the releases that are pinned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.clients import sdk_talks, talks
from tests.clients.spelling import Tool, Wire
from tests.clients.talks import Opening
from tests.drivers.npm import CLAUDE_CODE, CODEX_0_150, CODEX_0_166, OPENCODE, PI, NpmClient

OPENCODE_TOOL = Tool(name="bash", more={"description": "look"})
CLAUDE_TOOL = Tool(name="Bash", more={"description": "look"}, trims=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A client as a test subject.

    Attributes:
        npm: The package it comes from; None for an SDK, which is installed with the tests.
        opens: Makes from the installed command the function that opens it at a base URL.
        tool: The tool with which it runs commands.
        head: How many items of a history come before those a conversation adds: what the client says about its world.
        branches: Whether it can fork before a turn and take turns back.
    """

    wire: Wire
    tool: Tool
    opens: Callable[[Path], Opening]
    npm: NpmClient | None = None
    head: int = 0
    branches: bool = False


def _codex(client: NpmClient, *, head: int) -> Subject:
    tool = Tool(name="exec_command", command="cmd")
    return Subject(wire="responses", tool=tool, npm=client, head=head, branches=True, opens=talks.codex)


def _opencode(wire: Wire, *, head: int) -> Subject:
    opens = lambda binary: talks.opencode(binary, wire)  # noqa: E731
    return Subject(wire=wire, tool=OPENCODE_TOOL, npm=OPENCODE, head=head, branches=True, opens=opens)


def _claude(model: str | None, *, head: int) -> Subject:
    opens = lambda binary: talks.claude_code(binary, model)  # noqa: E731
    return Subject(wire="messages", tool=CLAUDE_TOOL, npm=CLAUDE_CODE, head=head, opens=opens)


def _pi(wire: Wire, *, head: int) -> Subject:
    opens = lambda binary: talks.pi(binary, wire)  # noqa: E731
    return Subject(wire=wire, tool=Tool(name="bash"), npm=PI, head=head, branches=True, opens=opens)


def _sdk(wire: Wire, opening: Opening, *, head: int = 0) -> Subject:
    tool = Tool(name=sdk_talks.TOOL)
    return Subject(wire=wire, tool=tool, head=head, branches=True, opens=lambda binary: opening)


SUBJECTS: dict[str, Subject] = {
    "codex 0.150.1": _codex(CODEX_0_150, head=2),
    "codex 0.166.0": _codex(CODEX_0_166, head=3),
    "opencode responses": _opencode("responses", head=1),
    "opencode chat": _opencode("chat", head=1),
    "opencode messages": _opencode("messages", head=0),
    "claude code": _claude("claude-sonnet-4-5", head=0),
    "claude code, newest model": _claude(None, head=0),
    "pi responses": _pi("responses", head=1),
    "pi chat": _pi("chat", head=1),
    "pi messages": _pi("messages", head=0),
    "openai sdk responses": _sdk("responses", sdk_talks.openai_responses),
    "openai sdk chat": _sdk("chat", sdk_talks.openai_chat, head=1),
    "anthropic sdk": _sdk("messages", sdk_talks.anthropic_messages),
    "agents sdk responses": _sdk("responses", sdk_talks.agents_responses),
    "agents sdk chat": _sdk("chat", sdk_talks.agents_chat, head=1),
}

Installed = Callable[[NpmClient], Awaitable[Path]]


async def opening_of(subject: Subject, installed: Installed) -> Opening:
    """Return what opens a subject, installed if it must be."""
    return subject.opens(await installed(subject.npm) if subject.npm else Path())
