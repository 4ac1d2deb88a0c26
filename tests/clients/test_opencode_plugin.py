"""The real opencode with threadkeep's plugin, straight to its provider: what the model receives after each compaction."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import REPOSITORY, Installed
from tests.clients.play import titles
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, call, say
from tests.drivers.gateway_process import GatewayProcess, gateway_process
from tests.drivers.npm import OPENCODE
from tests.drivers.opencode import MODELS, Opencode, opencode_server

from threadkeep import Config, Threadkeep
from threadkeep.store import RecordKind
from threadkeep.threads import Checkpoint, StateEntry, decode_body

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

PLUGIN = REPOSITORY / "plugins" / "opencode" / "index.ts"
TOKEN = "token-of-the-test"
NEEDLE = "The staging port is 7443."
LONG = "The build log follows for reference. " * 120
ASIDE = "[threadkeep]"


@dataclass(slots=True, kw_only=True)
class Stage:
    """opencode with the plugin, a threadkeep beside it, and a provider that neither stands in front of."""

    binary: Path
    folder: Path
    provider: ScriptedProvider
    gateway: GatewayProcess | None
    options: dict[str, Any]

    @property
    def store(self) -> Path:
        return self.folder / "threadkeep.db"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Opencode]:
        home = self.folder / "home"
        config = home / ".config" / "opencode" / "opencode.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        url = self.gateway.base_url if self.gateway is not None else "http://127.0.0.1:9"
        options = {"url": url, "token": TOKEN, **self.options}
        config.write_text(json.dumps({"plugin": [[f"file://{PLUGIN}", options]]}))
        async with opencode_server(
            self.binary, home=home, cwd=self.folder / "work", base_url=self.provider.url, wire="responses"
        ) as server:
            yield server

    async def checkpoints(self) -> list[Checkpoint]:
        """Return every checkpoint, oldest first."""
        async with Threadkeep(Config(store=str(self.store))) as tk:
            found: list[tuple[int, Checkpoint]] = []
            for summary in await tk.threads():
                records = await (await tk.find(summary.id)).records()
                kept = [record for record in records if record.kind is RecordKind.CHECKPOINT]
                found.extend((record.at_ms, decode_body(record.body, Checkpoint)) for record in kept)
        return [checkpoint for _, checkpoint in sorted(found, key=lambda each: each[0])]

    async def states(self) -> list[str]:
        """Return the session state of every checkpoint, oldest first, as the model is shown it."""
        entries = [entry for each in await self.checkpoints() for entry in each.layout if isinstance(entry, StateEntry)]
        return ["".join(part["text"] for part in json.loads(bytes(entry.item))["content"]) for entry in entries]


@asynccontextmanager
async def staged(
    installed: Installed, folder: Path, script: list[Any], *, running: bool = True, **options: Any
) -> AsyncIterator[Stage]:
    binary = await installed(OPENCODE)
    async with ScriptedProvider(script, enforcing=True, beside=titles) as provider:
        stage = Stage(binary=binary, folder=folder, provider=provider, gateway=None, options=options)
        if not running:
            yield stage
            return
        # It is given no provider to go to: nothing of the conversation passes through it.
        flags = ("--control-token", TOKEN)
        async with gateway_process(stage.store, upstream="http://127.0.0.1:9/v1", flags=flags) as stage.gateway:
            yield stage


async def compact(server: Opencode, session_id: str, words: str = "") -> str:
    """Type /codex-compact and return what is answered."""
    body = {"command": "codex-compact", "arguments": words, "model": f"mock/{MODELS['responses']}"}
    answer = await server._call("POST", f"/session/{session_id}/command", body)
    return "".join(part["text"] for part in answer["parts"] if part["type"] == "text")


def texts(request: Received) -> list[str]:
    """Return what each item of a request says, its head left out."""
    said: list[str] = []
    for item in request.input[1:]:
        content: Any = item.get("content", item.get("output", item.get("arguments", "")))
        said.append(content if isinstance(content, str) else "".join(part["text"] for part in content))
    return said


def asked(number: int) -> str:
    return f"Step {number}: never touch vendor{number}/. {LONG}"


@pytest.mark.moves_prefix(reason="the answer to a command is not part of the conversation")
async def test_a_session_goes_on_through_three_compactions(installed: Installed, tmp_path: Path) -> None:
    """After each the model receives the session state, what was kept, the request; the command, and its answer, never again."""
    script = [say("noted")]
    for number in (1, 2, 3):
        looked = {"command": f"echo step{number}", "description": "look"}
        script += [call("bash", looked, encrypted_reasoning=f"SEALED {number}", thought="hm"), say(f"done {number}")]
        script += [say(f"compacted {number}"), say(f"after {number}")]
    async with staged(installed, tmp_path, script) as stage, stage.opened() as server:
        session_id = await server.start(title="A session")
        await server.turn(session_id, f"{NEEDLE} Keep it in mind. {LONG}")
        answers: list[str] = []
        for number in (1, 2, 3):
            await server.turn(session_id, asked(number))
            answers += [
                await compact(server, session_id, "mind the port"),
                (await server.turn(session_id, f"Go on {number}.")).text,
            ]
        states = await stage.states()
    assert answers == [text for n in (1, 2, 3) for text in (f"compacted {n}", f"after {n}")]
    requests = stage.provider.requests
    ordered, after = [requests[index] for index in (3, 7, 11)], [requests[index] for index in (4, 8, 12)]
    assert len(states) == 3
    assert [texts(request)[0] for request in after] == states
    assert [texts(request)[-1] for request in after] == [f"Go on {n}." for n in (1, 2, 3)]
    assert [NEEDLE in text for text in states] == [True] * 3
    demands = [[f"never touch vendor{number}/." for number in range(1, n + 1)] for n in (1, 2, 3)]
    shown = ["\n".join(texts(request)) for request in after]
    assert [[demand for demand in wanted if demand not in text] for wanted, text in zip(demands, shown, strict=True)] == [[]] * 3
    assert [
        texts(request)[:-1] == texts(later)[: len(texts(request)) - 1] for request, later in zip(ordered, after, strict=True)
    ] == [True] * 3
    assert [texts(request)[-1].startswith("Answer with this sentence") for request in ordered] == [True] * 3
    assert [sum(LONG.strip() in text for text in texts(request)) for request in after] == [1, 1, 1]
    assert not any(ASIDE in text or "codex-compact" in text for request in requests for text in texts(request))
    assert {request.body["prompt_cache_key"] for request in requests} == {session_id}


@pytest.mark.moves_prefix(reason="the answer to a command is not part of the conversation")
async def test_typed_commands_are_answered_by_threadkeep(installed: Installed, tmp_path: Path) -> None:
    """Before a compaction and after it: the model repeats the answer, and is shown neither command nor answer again."""
    script = [say("one"), say("noted it"), say("two"), say("compacted"), say("status"), say("three")]
    typed = [asked(1), "tk note Ask Ruth.", asked(2), "tk compact", "tk status", "Go on."]
    async with staged(installed, tmp_path, script) as stage, stage.opened() as server:
        session_id = await server.start(title="A session")
        for text in typed:
            await server.turn(session_id, text)
        states = await stage.states()
    told = [texts(request)[-1] for request in stage.provider.requests]
    answers = [told[at].removeprefix("Answer with this sentence and nothing else: ") for at in (1, 3, 4)]
    assert [told[at] for at in (0, 2, 5)] == [asked(1), asked(2), "Go on."]
    assert [answer.split(maxsplit=1)[0] for answer in answers] == ["Noted", "Compacted:", "Thread"]
    assert [("Ask Ruth." in state) for state in states] == [True]
    last = texts(stage.provider.requests[-1])
    assert (last[0], last[-1]) == (states[0], "Go on.")
    shown = [text for request in stage.provider.requests for text in texts(request)[:-1]]
    assert not any("tk " in text or "Answer with" in text or "noted it" in text for text in shown)


async def test_what_was_said_before_the_first_compaction_is_recalled(installed: Installed, tmp_path: Path) -> None:
    """The store has the original, found by its words."""
    script = [say("noted"), say("two"), say("compacted")]
    async with staged(installed, tmp_path, script) as stage, stage.opened() as server:
        session_id = await server.start(title="A session")
        for text in (NEEDLE, asked(1)):
            await server.turn(session_id, text)
        await compact(server, session_id)
        async with Threadkeep(Config(store=str(stage.store))) as tk:
            (summary,) = await tk.threads()
            hits = await (await tk.find(summary.id)).recall("staging port")
            verdict = await tk.verify()
    assert (NEEDLE in hits[0].text, verdict.problems) == (True, ())


async def test_a_limit_compacts_before_the_request_and_the_request_is_answered(installed: Installed, tmp_path: Path) -> None:
    """Off by default; with the limit, requests that would hold more are compacted first, and nothing is asked of the user."""
    script = [say(f"done {number}") for number in range(5)]
    async with staged(installed, tmp_path, script, autoCompactTokenLimit=3_000) as stage, stage.opened() as server:
        session_id = await server.start(title="A session")
        said = [(await server.turn(session_id, asked(number))).text for number in range(5)]
        states = await stage.states()
    assert said == [f"done {number}" for number in range(5)]
    assert len(states) >= 2
    assert states[-1] in texts(stage.provider.requests[-1])
    assert all(f"vendor{number}/" in "".join(texts(stage.provider.requests[-1])) for number in range(5))


@pytest.mark.moves_prefix(reason="the answer to a command is not part of the conversation")
async def test_the_prefix_is_the_same_after_a_restart_and_in_a_fork(installed: Installed, tmp_path: Path) -> None:
    """Another process, and a fork under a key of its own, send what the session sent after its compaction, and go on from it."""
    script = [say("one"), say("two"), say("compacted"), say("three"), say("four"), say("elsewhere")]
    async with staged(installed, tmp_path, script) as stage:
        async with stage.opened() as server:
            session_id = await server.start(title="A session")
            for number in (1, 2):
                await server.turn(session_id, asked(number))
            await compact(server, session_id)
            await server.turn(session_id, "Go on.")
        async with stage.opened() as server:
            await server.turn(session_id, "And on.")
            fork_id = await server.fork(session_id)
            await server.turn(fork_id, "Elsewhere.")
    after, resumed, forked = stage.provider.requests[-3:]
    assert [texts(request)[: len(texts(after))] == texts(after) for request in (resumed, forked)] == [True, True]
    assert texts(forked)[: len(texts(resumed))] == texts(resumed)
    assert [request.body["prompt_cache_key"] for request in (after, resumed, forked)] == [session_id, session_id, fork_id]


@pytest.mark.moves_prefix(reason="opencode compacts its own history")
async def test_opencode_s_own_compaction_maps_onto_it(installed: Installed, tmp_path: Path) -> None:
    """Its summary goes on verbatim, once, with all that is remembered in front of it; threadkeep does not compact it again."""
    script = [say("one"), say("two"), say("THE SUMMARY"), say("three"), say("four")]
    async with staged(installed, tmp_path, script) as stage, stage.opened() as server:
        session_id = await server.start(title="A session")
        for number in (1, 2):
            await server.turn(session_id, asked(number))
        await server.summarize(session_id)
        for text in ("Go on.", "And on."):
            await server.turn(session_id, text)
        strategies = [checkpoint.strategy for checkpoint in await stage.checkpoints()]
        state = (await stage.states())[-1]
    # What the compaction before the summary remembered is carried over to the history that opencode wrote anew.
    assert strategies == ["extractive", "carried"]
    assert [asked(number).strip() in state for number in (1, 2)] == [True, True]
    for request in stage.provider.requests[-2:]:
        said = texts(request)
        assert (said[0], said[1:4]) == (state, ["What did we do so far?", "THE SUMMARY", "Go on."])
        assert "".join(said).count("THE SUMMARY") == 1


async def test_without_threadkeep_opencode_goes_on_and_says_so(installed: Installed, tmp_path: Path) -> None:
    """Requests are what they would be without the plugin, the command answers that nothing happened, and the log says why."""
    script = [say("one"), say("not compacted"), say("two")]
    async with staged(installed, tmp_path, script, running=False) as stage, stage.opened() as server:
        session_id = await server.start(title="A session")
        said = [(await server.turn(session_id, "Hello.")).text, await compact(server, session_id)]
        said.append((await server.turn(session_id, "Go on.")).text)
    assert said == ["one", "not compacted", "two"]
    assert texts(stage.provider.requests[-1]) == ["Hello.", "one", "Go on."]
    assert "threadkeep did not compact this session: threadkeep does not answer" in texts(stage.provider.requests[1])[-1]
    logs = "".join(path.read_text() for path in (tmp_path / "home").rglob("*.log"))
    assert "start it with: threadkeep serve" in logs


async def test_it_can_be_switched_off(installed: Installed, tmp_path: Path) -> None:
    """With `enableCodexCompaction` false nothing is recorded and nothing changed."""
    async with (
        staged(installed, tmp_path, [say("one")], enableCodexCompaction=False) as stage,
        stage.opened() as server,
    ):
        await server.turn(await server.start(title="A session"), "Hello.")
        assert await stage.states() == []
        async with Threadkeep(Config(store=str(stage.store))) as tk:
            assert await tk.threads() == []
