"""Google's own SDK through the gateway, against a scripted upstream."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, message, say
from tests.gateway.recall_client import recall, recalling

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.recall_tool import NAME
from threadkeep.gateway.serve import running_gateway

# The SDK derives a class from aiohttp's session.
pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")]

MODEL = "gemini-3-pro"
SECRET = "key-of-a-test"
LONG = "The build log follows for reference. " * 60


def client_of(url: str) -> Any:
    genai, types = importlib.import_module("google.genai"), importlib.import_module("google.genai.types")
    return genai.Client(api_key=SECRET, http_options=types.HttpOptions(base_url=url))


async def test_a_chat_is_compacted_and_goes_on(store_file: Path) -> None:
    """Whole and streamed turns, a function call with its signature, a command; the upstream accepts every request."""
    script = [say(f"noted {turn}") for turn in range(4)]
    script += [call("ls", {"path": "/src"}, call_id="c1"), say("One file."), say("Going on.")]
    async with (
        ScriptedProvider(script, enforcing=True) as provider,
        Threadkeep(Config(store=str(store_file))) as tk,
    ):
        async with running_gateway(tk, upstream=provider.url.removesuffix("/v1")) as url:
            client = client_of(url)
            chat = client.aio.chats.create(model=MODEL)
            for turn in range(4):
                answer = await chat.send_message(f"Step {turn}. {LONG}")
                assert answer.text == f"noted {turn}"
            pieces = [piece async for piece in await chat.send_message_stream("List the files.")]
            calls = [each for piece in pieces for each in piece.function_calls or ()]
            assert [(each.id, each.name, each.args) for each in calls] == [("c1", "ls", {"path": "/src"})]
            types = importlib.import_module("google.genai.types")
            part = types.Part(function_response=types.FunctionResponse(id="c1", name="ls", response={"output": "main.py"}))
            assert (await chat.send_message([part])).text == "One file."
            compacted = await chat.send_message("tk compact")
            assert "compacted" in compacted.text.lower()
            assert (await chat.send_message("Go on.")).text == "Going on."
            await client.aio.aclose()
        (thread,) = await tk.threads()
        assert (thread.dialect, thread.checkpoints) == ("gemini", 1)
    assert all(request.authorised for request in provider.requests)
    assert "session_compact_state" in str(provider.requests[-1].history)
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in store_file.parent.iterdir() if path.is_file())


async def test_it_streams_one_answer_while_the_model_recalls(store_file: Path) -> None:
    """The SDK sees the words of both answers, no call, and one end."""
    script = [recall("staging port", "call_r", message("Let me look.")), say("It is 7443.")]
    async with (
        ScriptedProvider(script, enforcing=True) as provider,
        recalling(store_file, provider, "gemini", streamed=True) as gateway,
    ):
        client = client_of(gateway.url)
        stream = await client.aio.models.generate_content_stream(
            model=MODEL, contents="The staging port is 7443. Which port does staging use?"
        )
        pieces = [piece async for piece in stream]
        await client.aio.aclose()
    assert "".join(piece.text or "" for piece in pieces) == "Let me look.\n\nIt is 7443."
    assert [each for piece in pieces for each in piece.function_calls or ()] == []
    assert NAME in str(provider.requests[0].body["tools"])
