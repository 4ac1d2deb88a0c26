"""Qwen Code with its default settings: it sends no name for a conversation, and renders an older one anew."""

from __future__ import annotations

import asyncio
import os
from itertools import count
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import say
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import QWEN

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.clients, pytest.mark.moves_prefix(reason="the client renders its history anew")]

LONG = "It is all in the log that was read before, line by line. " * 8
TURN_SECONDS = 120.0


async def test_a_resumed_conversation_stays_in_its_thread(tmp_path: Path, installed: Installed) -> None:
    """`-c` drops reminders from older messages and may word the first one anew; its note taker adds nothing to the thread."""
    binary = await installed(QWEN)
    work, home, numbers = tmp_path / "work", tmp_path / "home", count()
    work.mkdir()
    home.mkdir()
    async with (
        ScriptedProvider([], beside=lambda received: say(f"Answer {next(numbers)}. {LONG}")) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "OPENAI_API_KEY": "sk-mock",
            "OPENAI_MODEL": "qwen3-coder-plus",
            "OPENAI_BASE_URL": gateway.base_url,
        }
        for words in (["Never touch vendor/."], ["-c", "-p", "And now?"], ["-c", "-p", "Go on."], ["-c", "-p", "Anything else?"]):
            client = await asyncio.create_subprocess_exec(
                str(binary),
                "--auth-type",
                "openai",
                *words,
                cwd=work,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            await asyncio.wait_for(client.communicate(), TURN_SECONDS)
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        threads = await tk.threads()
        window = await (await tk.find(threads[0].id)).window()
    assert [(thread.parent, thread.title) for thread in threads] == [(None, "Never touch vendor/.")]
    assert "Anything else?" in str(window)
    assert "Managed memory" not in str(window)
