"""Commands in requests to which a host adds messages of its own, as Claude Code does with its default model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.script import say
from tests.gateway.client import WIRES, Client, answer, person, talk, text_of

from threadkeep.gateway.conversation.proxy_interface import Answered

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

# No host of Gemini's sends a message in a role of its own behind what a person typed.
SPEAKS_BEHIND = [wire for wire in WIRES if wire != "gemini"]
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("wire", SPEAKS_BEHIND)]

Json = dict[str, Any]

# Abridged from a request of Claude Code 2.1.327: two reminders before the typed text, the environment in a message behind it.
GIT = (
    "<system-reminder>\nAs you answer the user's questions, you can use the following context:\n# gitStatus\n"
    "This is the git status at the start of the conversation.\n\nCurrent branch: main\n</system-reminder>"
)
ATTRIBUTION = (
    "<system-reminder>\nAttribution for git commits and pull requests you create from here on: none.\n</system-reminder>\n"
)
ENVIRONMENT = "# Environment\nYou have been invoked in the following environment: \n - Primary working directory: /srv/orchard\n"
DATE = "Today's date is 2026-09-01."
LONG = "The build log follows for reference. " * 60


def behind(wire: WireName, text: str = ENVIRONMENT) -> Json:
    """Return what a host says behind a person's message."""
    match wire:
        case "responses":
            return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}
        case "chat":
            return {"role": "system", "content": text}
        case "messages":
            return {"role": "system", "output_config": {"effort": "medium"}, "content": [{"type": "text", "text": text}]}
        case "gemini":
            return {"role": "user", "parts": [{"text": f"<environment_context>\n{text}\n</environment_context>"}]}


def head(wire: WireName) -> list[Json]:
    """Return what stands before every history of this wire."""
    return [{"role": "system", "content": "Be brief."}] if wire == "chat" else []


async def answered(client: Client) -> None:
    """Send the history and take the gateway's answer into it; nothing else may answer."""
    decided = await client.open()
    assert isinstance(decided, Answered)
    client.history.append(answer(client.wire, decided.text))


@pytest.mark.parametrize("text", ["tk status", "tk note Ask Ruth.", "tk compact the port", "/compact", "tk help"])
async def test_a_command_is_answered_whatever_a_host_says_behind_it(tk: Threadkeep, wire: WireName, text: str) -> None:
    """B3: the newest thing that the user said is a command, so the model is not asked."""
    client = talk(tk, wire)
    client.history = [person(wire, GIT, ATTRIBUTION, text), behind(wire)]
    await answered(client)
    client.history += [person(wire, text), behind(wire), person(wire, GIT)]
    await answered(client)
    assert client.provider.requests == []


async def test_what_the_host_said_reaches_the_model_with_the_next_message(tk: Threadkeep, wire: WireName) -> None:
    """Reminders beside the command stay; a system message never comes first, which providers refuse."""
    client = talk(tk, wire)
    client.history = [person(wire, GIT, ATTRIBUTION, "tk status"), behind(wire)]
    await answered(client)
    await client.ask("Go on.")
    begun = {
        "responses": [person(wire, GIT, ATTRIBUTION), person(wire, "Go on.")],
        "chat": [person(wire, GIT, ATTRIBUTION, "Go on.")],
        "messages": [person(wire, GIT, ATTRIBUTION, "Go on.")],
    }[wire]
    assert client.provider.last == [*head(wire), *begun, behind(wire)]
    await client.ask("And on.")
    assert client.provider.last == [*head(wire), *begun, behind(wire), *client.history[-3:-1]]


async def test_what_the_host_said_beside_a_first_command_outlives_compactions(tk: Threadkeep, wire: WireName) -> None:
    """The model still knows where it works, once, after each of two compactions."""
    client = talk(tk, wire)
    client.history = [person(wire, f"<system-reminder>\n{ENVIRONMENT}</system-reminder>", "tk status"), behind(wire, DATE)]
    await answered(client)
    for _ in range(2):
        for turn in range(4):
            await client.ask(f"Step {turn}. {LONG}")
        await client.ask("tk compact")
        assert client.answers[-1].startswith("Compacted: ")
        await client.ask("Go on.")
        sent = text_of(client.provider.last)
        assert [sent.count(words) for words in ("/srv/orchard", DATE, "session_compact_state>")] == [1, 1, 2]


async def test_in_the_middle_of_a_conversation_only_the_command_and_its_answer_go(tk: Threadkeep, wire: WireName) -> None:
    """Nothing of what the model is shown tells that there was a command."""
    client = talk(tk, wire)
    await client.ask("Begin.")
    said = list(client.history)
    client.history += [person(wire, "tk status"), behind(wire, "# Environment\nIt is later now.")]
    await answered(client)
    await client.ask("Go on.")
    assert client.provider.last == [
        *head(wire),
        *said,
        person(wire, "Go on."),
        behind(wire, "# Environment\nIt is later now."),
    ]


async def test_the_answer_behind_a_host_s_message_is_known_without_its_signature(tk: Threadkeep, wire: WireName) -> None:
    """Another gateway may have given it, with a key that this one does not have."""
    client = talk(tk, wire)
    client.history = [person(wire, "tk status"), behind(wire), answer(wire, "Window: 10 of 100 tokens.")]
    await client.ask("Go on.")
    assert client.provider.last == [*head(wire), person(wire, "Go on."), behind(wire)]


async def test_a_model_s_reply_to_its_host_stays(tk: Threadkeep, wire: WireName) -> None:
    """What stands behind the answer to a command is a conversation again."""
    client = talk(tk, wire)
    await client.ask("tk status")
    notice = person(wire, "<system-reminder>[SYSTEM NOTIFICATION - NOT USER INPUT] The build ended.</system-reminder>")
    client.history.append(notice)
    await client.send(say("Then I go on."))
    await client.ask("Do.")
    assert client.provider.last == [*head(wire), notice, *client.history[-3:-1]]


async def test_a_summary_that_the_client_asks_for_behind_a_command_is_asked_for(tk: Threadkeep, wire: WireName) -> None:
    """Claude Code adds its request to the user's newest message, even where that is a command; the model gets the request."""
    client = talk(tk, wire)
    await client.ask("Begin.")
    said = list(client.history)
    await client.ask("tk status")
    wanted = "CRITICAL: Respond with TEXT ONLY. Summarise the conversation."
    client.history[-2:] = [person(wire, "tk status", wanted)]
    await client.send(say("Nothing happened yet."))
    assert client.provider.last == [*head(wire), *said, person(wire, wanted)]
