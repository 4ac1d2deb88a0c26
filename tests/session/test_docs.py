"""The page about agents tells the truth: its example runs, its commands exist."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from tests.cli.stories import surroundings
from tests.doubles.model_server import ModelServer, events, streamed
from tests.session.answers import DIALECTS

from threadkeep.cli.chat_commands import COMMANDS

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")


async def test_the_first_example_runs(tmp_path: Path) -> None:
    """Copied as it is, with a server of ours in the place of the one it names."""
    example = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}
    asks = events({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}, "[DONE]")
    async with ModelServer([asks, streamed("chat", "It is 5.")]) as server:
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", example.replace("http://127.0.0.1:8080", server.origin)),
            cwd=tmp_path,
            env=surroundings(),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await running.communicate()
    assert (running.returncode, out) == (0, b"It is 5. 2\n")
    assert server.requests[1].history[-1]["content"] == "5"


def test_every_command_it_names_exists_and_every_one_is_named() -> None:
    """The table of the page is the table of the chat."""
    assert set(re.findall(r"`/(\w+)", PAGE)) == set(COMMANDS)


def test_the_dialects_are_all_that_models_speak() -> None:
    """What these tests run on is every dialect but Gemini's, for which there is no model of our own."""
    from threadkeep.dialects import DIALECTS as known

    assert {*DIALECTS, "gemini"} == set(known)
