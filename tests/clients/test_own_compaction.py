"""Clients that compact by themselves, before or after threadkeep did: their summary is history like any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.play import DEMANDS, LONG_ASK, titles
from tests.clients.subjects import SUBJECTS, Installed, Subject, opening_of
from tests.clients.talks import Opening
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, say
from tests.drivers.codex import CodexCli
from tests.drivers.codex_app_server import app_server
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CODEX_0_150, CODEX_0_166, NpmClient

from threadkeep import Config, Threadkeep
from threadkeep.client import ThreadSummary

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.clients,
    pytest.mark.moves_prefix(reason="the client begins its history anew with a summary"),
]

SUMMARY = "We agreed to leave vendor/ alone and read the log."
STATE = b"session_compact_state"
# By what a client says when it wants a summary; Codex says it in a header.
ASKING = (
    b"You are a context summarization agent",
    b"You are a context summarization assistant",
    b"CRITICAL: Respond with TEXT ONLY",
)
# Whose request for a summary is the conversation with an instruction behind it; the others retell it as one text.
EXTENDING = ("codex 0.150.1", "codex 0.166.0", "claude code, newest model")
RETELLING = ("opencode responses", "pi messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """A conversation in which both compacted: the answers, what the provider received, and the threads it left."""

    answers: list[str | None]
    requests: list[Received]
    summaries: list[Received]
    refusals: list[str]
    threads: list[ThreadSummary]


def beside(received: Received) -> Reply | None:
    """Answer a request for a title, or for a summary, whenever it comes."""
    asked = any(words in received.raw for words in ASKING) or '"compaction"' in received.headers.get("x-codex-turn-metadata", "")
    return say(f"<summary>{SUMMARY}</summary>") if asked else titles(received)


async def lead(subject: Subject, opening: Opening, folder: Path) -> Led:
    """Three turns; `/compact` to the gateway; a turn; the client's own compaction; two more turns."""
    script = [say(f"{number} done") for number in ("one", "two", "three", "four", "five", "six")]
    async with (
        ScriptedProvider(script, enforcing=True, beside=beside) as provider,
        gateway_process(folder / "threadkeep.db", upstream=provider.url) as gateway,
        opening(folder, gateway.base_url) as talk,
    ):
        answers = [await talk.say(text) for text in (DEMANDS, LONG_ASK, "THREE", "tk compact", "FOUR")]
        await talk.compact()
        answers += [await talk.say(text) for text in ("FIVE", "SIX")]
    async with Threadkeep(Config(store=str(folder / "threadkeep.db"))) as tk:
        threads = await tk.threads()
    summaries = [request for request in provider.side_requests if titles(request) is None]
    return Led(answers=answers, requests=provider.requests, summaries=summaries, refusals=provider.refusals, threads=threads)


@pytest.mark.parametrize("name", [*EXTENDING, *RETELLING])
async def test_a_client_s_summary_stands_beside_what_was_demanded(name: str, installed: Installed, tmp_path: Path) -> None:
    """Its request for a summary passes, on the compacted window where it extends it; its summary goes on verbatim, in the same
    thread, and what the person demanded stands beside it in the very next request.
    """
    led = await lead(SUBJECTS[name], await opening_of(SUBJECTS[name], installed), tmp_path)
    assert [answer for index, answer in enumerate(led.answers) if index != 3] == [
        f"{number} done" for number in ("one", "two", "three", "four", "five", "six")
    ]
    assert led.refusals == []
    *_, four, five, six = led.requests
    assert STATE in four.raw
    assert {STATE in request.raw for request in led.summaries} == {name in EXTENDING}
    assert [(SUMMARY.encode() in request.raw, STATE in request.raw) for request in (five, six)] == [(True, True)] * 2
    assert [request for request in (five, six) if DEMANDS.encode() not in request.raw] == []
    assert [thread.checkpoints for thread in led.threads] == [2]


@pytest.mark.parametrize(
    ("client", "path"),
    [
        pytest.param(CODEX_0_150, "/v1/responses", id="0.150.1, trigger"),
        pytest.param(CODEX_0_150, "/v1/responses/compact", id="0.150.1, endpoint"),
        pytest.param(CODEX_0_166, "/v1/responses", id="0.166.0, trigger"),
    ],
)
async def test_a_provider_s_compaction_passes_through(client: NpmClient, path: str, installed: Installed, tmp_path: Path) -> None:
    """Codex asks a provider named OpenAI to compact: the trigger, or the endpoint, and the opaque item pass as they are."""
    remote_v2 = path == "/v1/responses"
    opaque = {"type": "compaction", "encrypted_content": "SEALED BY THE PROVIDER"}
    compacted = Reply(items=(opaque,)) if remote_v2 else Reply(body={"output": [opaque | {"id": "cmp_1"}]})
    async with (
        ScriptedProvider([say("one"), compacted, say("two"), say("three")]) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        codex = CodexCli(
            await installed(client),
            home=tmp_path / "home",
            cwd=tmp_path / "work",
            base_url=gateway.base_url,
            provider_name="OpenAI",
            remote_v2=remote_v2,
        )
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd))
            turns = [await server.turn(thread_id, "ONE"), await server.compact(thread_id)]
            turns += [await server.turn(thread_id, text) for text in ("TWO", "THREE")]
    assert [turn.status for turn in turns] == ["completed"] * 4
    asking, *after = provider.requests[1:]
    assert asking.path == path
    assert (asking.input[-1] == {"type": "compaction_trigger"}) == remote_v2
    sealed = [[item["encrypted_content"] for item in request.input if item["type"] == "compaction"] for request in after]
    assert sealed == [["SEALED BY THE PROVIDER"]] * 2
