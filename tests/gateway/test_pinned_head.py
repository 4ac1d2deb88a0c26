"""What must stay in front of a history: tools and instructions that a client sends among its items, with Codex' default model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.script import Reply, call, say
from tests.gateway.client import Client, person, talk, text_of

from threadkeep import Config, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.items import ItemKind, Role

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

RESPONSES = find_dialect("responses")

LONG = "The build log follows for reference. " * 60


def developer(text: str) -> Json:
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


# Codex 0.169.0 with its default model (gpt-6.1-sol): no fields `tools` and `instructions`, everything among the items.
TOOLS: Json = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [
        {
            "type": "namespace",
            "name": "functions",
            "description": "",
            "tools": [{"type": "function", "name": "exec_command", "parameters": {"type": "object"}}],
        }
    ],
}
HEAD: list[Json] = [
    TOOLS,
    developer("You are Codex, an agent based on GPT-6."),
    developer("<skills_instructions>\n## Skills\n</skills_instructions>"),
    developer("<multi_agent_mode>Do not spawn sub-agents.</multi_agent_mode>"),
]
ENVIRONMENT = person("responses", "<environment_context>\n  <cwd>/home/me/work</cwd>\n</environment_context>")


class CodexClient(Client):
    """A conversation in the form Codex sends: its head stands before the history."""

    def body(self) -> bytes:
        fields = {"model": "gpt-6.1-sol", "stream": False, "store": False, "prompt_cache_key": "01a1"}
        return json.dumps({**fields, "input": [*HEAD, ENVIRONMENT, *self.history]}).encode()


def codex(tk: Threadkeep, *, rules: Rules | None = None) -> CodexClient:
    plain = talk(tk, "responses", rules=rules, thread_id="01a1")
    return CodexClient(
        wire="responses", conversations=plain.conversations, provider=plain.provider, headers=plain.headers, history=[]
    )


def running(command: str, *, call_id: str) -> Reply:
    return call("exec_command", {"cmd": command}, call_id=call_id)


async def test_the_head_stays_in_front_through_a_compaction_on_demand(tk: Threadkeep) -> None:
    """Tools and instructions begin every request, byte for byte, also after a compaction; host context and state follow."""
    client = codex(tk)
    await client.ask("Never touch vendor/.")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("Go on.", running("ls", call_id="c1"))
    await client.tool({"c1": "README.md"}, say("One file."))
    await client.ask("And now?")
    histories = [request.history for request in client.provider.requests]
    assert [history[:5] for history in histories] == [[*HEAD, ENVIRONMENT]] * 8
    assert ["session_compact_state" in text_of(history[5:6]) for history in histories] == [False] * 5 + [True] * 3
    assert [text_of(history).count("additional_tools") for history in histories] == [1] * 8
    assert "Never touch vendor/." in text_of(client.provider.last)


async def test_the_head_stays_in_front_through_automatic_compactions(store_file: Path) -> None:
    """The same where the gateway compacts by itself, again and again, and the provider checks every request."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000)) as tk:
        client = codex(tk, rules=Rules(auto_compact="on"))
        await client.ask("Never touch vendor/.")
        for turn in range(12):
            await client.ask(f"Step {turn}. {LONG}")
    histories = [request.history for request in client.provider.requests]
    assert [history[:5] for history in histories] == [[*HEAD, ENVIRONMENT]] * 13
    states = {text_of(history[5:6]) for history in histories if "session_compact_state" in text_of(history[5:6])}
    assert len(states) >= 2


@pytest.mark.parametrize("role", ["developer", "system", None])
def test_tools_among_the_items_are_head(role: str | None) -> None:
    """They belong to the instructions around them, whichever role they name; a model never said them."""
    tools = {name: value for name, value in {**TOOLS, "role": role}.items() if value is not None}
    body = {"model": "gpt-6.1-sol", "input": [tools, *HEAD[1:], ENVIRONMENT, person("responses", "Hi.")]}
    request = RESPONSES.split(json.dumps(body).encode())
    assert request is not None
    assert [json.loads(item.raw) for item in request.head] == [tools, *HEAD[1:]]
    view = RESPONSES.view(request.head[0])
    assert (view.kind, view.role, view.by_person, view.context is not None) == (ItemKind.OPAQUE, Role.SYSTEM, False, True)


def test_an_unknown_item_in_the_developers_role_is_head() -> None:
    """What a later release puts among its instructions stays among them."""
    newer = {"type": "additional_rules", "role": "developer", "rules": ["Be brief."]}
    request = RESPONSES.split(json.dumps({"model": "m", "input": [newer, person("responses", "Hi.")]}).encode())
    assert request is not None
    assert [json.loads(item.raw) for item in request.head] == [newer]


async def test_a_compacted_thread_of_the_library_begins_with_its_head(tk: Threadkeep) -> None:
    """Whoever records whole requests gets tools and instructions back in front, compaction after compaction."""
    thread = await tk.thread("work", dialect="responses")
    await thread.record([*HEAD, ENVIRONMENT, person("responses", "Never touch vendor/.")])
    fronts = []
    for turn in range(3):
        for step in range(6):
            answer = {"role": "assistant", "content": [{"type": "output_text", "text": f"Done. {LONG}"}]}
            await thread.record([answer, person("responses", f"Step {turn}.{step}. {LONG}")])
        await thread.compact()
        window = list(await thread.window())
        fronts.append((window[:5], "session_compact_state" in text_of(window[5:6]), text_of(window).count("additional_tools")))
    assert fronts == [([*HEAD, ENVIRONMENT], True, 1)] * 3


async def test_instructions_of_later_turns_stay_behind_the_state(tk: Threadkeep) -> None:
    """A newer version of a named section replaces the older one in front; what came later is not moved before the rest."""
    thread = await tk.thread("work", dialect="responses")
    newer = developer("<multi_agent_mode>Spawn as many as you like.</multi_agent_mode>")
    await thread.record([*HEAD, person("responses", "Begin."), newer, person("responses", f"Go on. {LONG}")])
    for step in range(6):
        answer = {"role": "assistant", "content": [{"type": "output_text", "text": f"Done. {LONG}"}]}
        await thread.record([answer, person("responses", f"Step {step}. {LONG}")])
    await thread.compact()
    window = list(await thread.window())
    assert window[:3] == HEAD[:3]
    assert "session_compact_state" in text_of(window[3:4])
    assert window[4] == newer


async def test_what_stands_behind_the_state_never_comes_to_the_front(tk: Threadkeep) -> None:
    """Claude Code tells its world in a system message behind the user's first, and no history may begin with one."""
    client = talk(tk, "messages")
    client.history = [person("messages", f"Begin. {LONG}"), {"role": "system", "content": "# Environment\nWorking directory: /w"}]
    await client.send(say("fine"))
    for again in range(3):
        for turn in range(4):
            await client.ask(f"Step {again}.{turn}. {LONG}")
        await client.ask("/compact")
        await client.ask("Go on.")
    sent = client.provider.last
    assert [sent[0]["role"], text_of(sent).count("Working directory: /w")] == ["user", 1]
