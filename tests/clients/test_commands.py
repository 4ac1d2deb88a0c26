"""Commands typed in real clients: each passes them on as a message, with whatever it says around them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.clients.subjects import SUBJECTS, Installed, opening_of
from tests.clients.test_own_compaction import beside
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import say
from tests.drivers.gateway_process import gateway_process

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

CLIENTS = ("codex 0.166.0", "opencode responses", "claude code", "claude code, newest model")


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_command_that_opens_a_conversation_is_answered_and_leaves_no_trace(
    name: str, installed: Installed, tmp_path: Path
) -> None:
    """The model is not asked; the next request is one that its provider takes, with what the client says of its world."""
    subject = SUBJECTS[name]
    opening = await opening_of(subject, installed)
    script = [say("one done"), say("two done")]
    async with (
        ScriptedProvider(script, enforcing=True, beside=beside) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
        opening(tmp_path, gateway.base_url) as talk,
    ):
        status = await talk.say("tk status")
        answers = [await talk.say("ONE"), await talk.say("tk note Ask Ruth."), await talk.say("TWO")]
    assert status is not None
    assert status.startswith("Thread ")
    assert [answers[0], answers[2]] == ["one done", "two done"]
    assert answers[1] is not None
    assert answers[1].startswith("Noted as #")
    assert provider.refusals == []
    spoken = (b"tk status", b"tk note", b"Said by threadkeep")
    assert [words for request in provider.requests for words in spoken if words in request.raw] == []
    if subject.npm is not None and subject.npm.command == "claude":
        worlds = [json.dumps(request.history).count("Primary working directory:") for request in provider.requests]
        assert worlds == [1, 1]
