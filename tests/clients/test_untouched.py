"""A gateway that was not told to compact is not there: every client's requests arrive as they were sent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.clients.made_up import told
from tests.clients.play import titles
from tests.clients.subjects import SUBJECTS, Installed, Subject, opening_of
from tests.clients.talks import Opening
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.drivers.gateway_process import gateway_process

pytestmark = [pytest.mark.anyio, pytest.mark.clients]


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]


def script(subject: Subject) -> list[Any]:
    look = call(
        subject.tool.name, subject.tool.arguments("echo anchored"), call_id="call_1", encrypted_reasoning="S", thought="hm"
    )
    return [say("one done"), look, say("two done", encrypted_reasoning="T", thought="hm"), say("three done")]


async def lead(opening: Opening, folder: Path, base_url: str) -> list[str | None]:
    """Lead three turns, one with a command that really runs, in a folder that is new each time and has the same name."""
    async with opening(folder, base_url) as talk:
        return [await talk.say(text) for text in ("ONE " + "a long log " * 2_000, "TWO", "THREE")]


async def test_the_provider_receives_what_the_client_sent(subject: Subject, installed: Installed, tmp_path: Path) -> None:
    """Bodies are equal, headers too, to those of a run with nothing in between, however full the window is."""
    opening = await opening_of(subject, installed)
    folder = tmp_path / "client"
    async with ScriptedProvider(script(subject), beside=titles) as direct:
        answers = await lead(opening, folder, direct.url)
    shutil.rmtree(folder, ignore_errors=True)
    (tmp_path / "threadkeep.toml").write_text("model_context_window = 1000\n")
    async with (
        ScriptedProvider(script(subject), beside=titles) as through,
        gateway_process(tmp_path / "threadkeep.db", upstream=through.url) as gateway,
    ):
        relayed = await lead(opening, folder, gateway.base_url)
    assert relayed == answers == ["one done", "two done", "three done"]
    assert told(through.requests) == told(direct.requests)
    assert told(through.side_requests) == told(direct.side_requests)
