"""`threadkeep chat` in a real terminal, as a person has it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.chat.chat_process import around
from tests.chat.terminal import Terminal
from tests.cli.stories import command
from tests.doubles.model_server import ModelServer, streamed

import threadkeep
from threadkeep.testing.model_checks import EVENTS, HttpReply

pytestmark = pytest.mark.anyio

PROMPT = "you ›"
# Long enough that a compaction of two turns has something to replace.
SPEECH = " ".join(f"Line {number} of the story about kelp and rock." for number in range(160))


def terminal(home: Path, *arguments: str) -> Terminal:
    environ = around(home, THREADKEEP_MODEL_CONTEXT_WINDOW="16000")
    return Terminal(command("chat", *arguments), folder=home, environ=environ)


@pytest.mark.slow
async def test_two_turns_a_compaction_a_fork_and_a_resume(tmp_path: Path) -> None:
    """Talked to, compacted, forked, left and gone on with: the fork has the talk, the thread it came from is as it was."""
    replies = [streamed("chat", text) for text in (f"{SPEECH} The end.", "It holds fast.", "Only in the fork.", "Welcome back.")]
    async with ModelServer(replies) as server:
        async with terminal(tmp_path, "tale", "--model", f"tiny@{server.origin}/v1") as screen:
            await screen.shows(PROMPT)
            await screen.types("Tell me about kelp. Never mention sharks.")
            await screen.shows("The end.")
            await screen.shows(PROMPT, times=2)
            await screen.types("What does it do?")
            await screen.shows("It holds fast.")
            seen = await screen.shows(PROMPT, times=3)
            assert "of 14,400 tokens" in seen
            await screen.types("/compact the kelp")
            seen = await screen.shows(PROMPT, times=4)
            assert "checkpoint #" in seen
            assert "before" in seen
            await screen.types("/fork other-tale")
            await screen.shows("this is other-tale now, a fork")
            await screen.shows(PROMPT, times=5)
            await screen.types("Are you a fork?")
            await screen.shows("Only in the fork.")
            await screen.shows(PROMPT, times=6)
            await screen.types("/quit")
            await screen.ends()
        async with terminal(tmp_path, "--resume") as screen:
            await screen.shows("which one?")
            await screen.types("2")
            seen = await screen.shows(PROMPT)
            assert "What does it do?" in seen
            await screen.types("I am back.")
            await screen.shows("Welcome back.")
            await screen.shows(PROMPT, times=2)
            await screen.presses("C-d")
            await screen.ends()
    sent = [str(request.history) for request in server.requests]
    assert ("Never mention sharks" in sent[2], "Line 80 of" in sent[2]) == (True, False)
    assert ("Are you a fork?" in sent[3], "Never mention sharks" in sent[3]) == (False, True)
    async with threadkeep.open(tmp_path / "chat.db") as tk:
        assert (await tk.verify()).ok
        assert {(summary.id, summary.parent) for summary in await tk.threads()} == {("tale", None), ("other-tale", "tale")}


async def test_an_answer_can_be_interrupted_and_the_talk_goes_on(tmp_path: Path) -> None:
    """Ctrl-C ends the answer that is coming in, not the chat; what was asked stays, what was half said does not."""
    whole = streamed("chat", "This will never be finished.").chunks
    hanging = HttpReply(headers=EVENTS, chunks=(b"".join(whole)[:300],), hold=asyncio.Event())
    script = [hanging, streamed("chat", "I listen.")]
    async with ModelServer(script) as server, terminal(tmp_path, "tale", "--model", f"tiny@{server.origin}/v1") as screen:
        await screen.shows(PROMPT)
        await screen.types("Talk forever.")
        await server.arrived(1)
        await screen.presses("C-c")
        await screen.shows("interrupted; your message")
        await screen.shows(PROMPT, times=2)
        await screen.types("Stop. Are you there?")
        await screen.shows("I listen.")
        await screen.shows(PROMPT, times=3)
        await screen.presses("C-d")
        await screen.ends()
    sent = str(server.requests[1].history)
    assert ("Talk forever." in sent, "This will" in sent) == (True, False)


async def test_mail_is_answered_at_the_prompt(tmp_path: Path) -> None:
    """What another agent sent is answered at the next line, by name; then the person goes on."""
    script = [streamed("chat", "Twelve boats."), streamed("chat", "I counted.")]
    async with ModelServer(script) as server, terminal(tmp_path, "tale", "--model", f"tiny@{server.origin}/v1") as screen:
        await screen.shows(PROMPT)
        async with threadkeep.open(tmp_path / "chat.db") as tk:
            await (await tk.find("tale")).deliver("Count the boats.", sender="harbour", way="trigger")
        await screen.presses("Enter")
        await screen.shows("mail from harbour")
        await screen.shows("Twelve boats.")
        await screen.shows(PROMPT, times=2)
        await screen.types("How do you know?")
        await screen.shows("I counted.")
        await screen.shows(PROMPT, times=3)
        await screen.presses("C-d")
        await screen.ends()
    assert ["Count the boats." in str(request.history) for request in server.requests] == [True, True]
