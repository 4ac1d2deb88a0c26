"""The real Codex CLI with threadkeep's hooks: what its model receives after each of Codex's own compactions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.hook_talks import NEEDLE, RULES, SAID, joined, spaced, state_told, threadkeep
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, call, say
from tests.drivers.codex import AUTO_COMPACT_TOKENS, CodexCli
from tests.drivers.process import run_to_end

from threadkeep.adapters.client_settings.clients import find_own_program

pytestmark = [pytest.mark.anyio, pytest.mark.clients, pytest.mark.moves_prefix(reason="Codex compacts its own history")]

LIMIT = 8_000
OVER = 9_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A session that Codex compacted three times: before a turn, within one, before a turn again.

    `told` is the state as the store had it after each of those turns.
    """

    session_id: str
    requests: tuple[Received, ...]
    told: tuple[str, ...]
    store: Path
    codex: CodexCli


@pytest.fixture
async def compacted(codex_at: Callable[[str], CodexCli], tmp_path: Path) -> Compacted:
    store = tmp_path / "threadkeep.db"
    script: list[Reply] = [
        *(say("one"), say("one more", input_tokens=OVER)),
        *(say("SUMMARY 1"), say("two")),
        *(call("exec_command", {"cmd": "echo anchored"}, input_tokens=OVER), say("SUMMARY 2"), say("three", input_tokens=OVER)),
        *(say("SUMMARY 3"), say("four")),
    ]
    async with ScriptedProvider(script) as provider:
        codex = codex_at(provider.url)
        config = codex.codex_home / "config.toml"
        config.write_text(config.read_text().replace(str(AUTO_COMPACT_TOKENS), str(LIMIT)))
        await threadkeep("setup", "codex", "--hooks", "--yes", store=store, cwd=codex.cwd, environment=codex.environment())
        recall = shlex.join((*find_own_program(), "--store", str(store), "recall"))
        session_id = await say_to(codex, SAID[0])
        await say_to(codex, SAID[1], session_id)
        told: list[str] = []
        for text in ("Never touch vendor/.", "Run echo.", "Go on."):
            await say_to(codex, text, session_id)
            told.append(await state_told(store, session_id, recall=recall))
    return Compacted(session_id=session_id, requests=tuple(provider.requests), told=tuple(told), store=store, codex=codex)


async def say_to(codex: CodexCli, text: str, session_id: str | None = None) -> str:
    """Say something in a process of its own, with hooks trusted as a user trusts them once, and return the session's id."""
    which = ("exec",) if session_id is None else ("exec", "resume", session_id)
    words = (str(codex.binary), *which, "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "--json", "--", text)
    ended = await run_to_end(words, cwd=codex.cwd, environment=codex.environment(), seconds=60)
    assert ended.exit_code == 0, ended.stdout.decode()
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert not [event for event in events if "threadkeep could not" in json.dumps(event)]
    return next(str(event["thread_id"]) for event in events if event["type"] == "thread.started")


def handed_back(request: Received) -> list[str]:
    """Return what stands in the request as context from our hooks, in order."""
    texts = [item["content"][0]["text"] for item in request.input if item.get("role") == "developer"]
    return [text for text in texts if "threadkeep" in text or text.startswith("[session state")]


async def test_the_model_receives_the_state_whole_after_each_compaction(compacted: Compacted) -> None:
    """The first request after a compaction has the session state as the store has it, longer than one hook may say, in order."""
    after = [compacted.requests[index] for index in (3, 6, 8)]
    assert [spaced(joined(handed_back(request))) for request in after] == [spaced(text) for text in compacted.told]
    assert [len(handed_back(request)) > 1 for request in after] == [True] * 3
    assert [[rule for rule in RULES if rule not in text] for text in compacted.told] == [[], [], []]
    assert "Never touch vendor/." in compacted.told[-1]


async def test_what_was_said_before_the_first_compaction_is_recalled(compacted: Compacted) -> None:
    """`threadkeep recall` finds the original, and every compaction of ours is on record beside what Codex wrote."""
    codex = compacted.codex
    environment = codex.environment()
    found = await threadkeep(
        "recall", compacted.session_id, "--json", "staging", "port", store=compacted.store, cwd=codex.cwd, environment=environment
    )
    assert NEEDLE in json.loads(found.stdout)["hits"][0]["text"]
    verified = await threadkeep("verify", "--json", store=compacted.store, cwd=codex.cwd, environment=environment)
    assert json.loads(verified.stdout)["problems"] == []


async def test_a_store_that_cannot_be_opened_costs_codex_nothing(codex_at: Callable[[str], CodexCli], tmp_path: Path) -> None:
    """Codex compacts and answers as without hooks; what went wrong is told to its user and kept in a file."""
    async with ScriptedProvider([say("one", input_tokens=OVER), say("SUMMARY"), say("two")]) as provider:
        codex = codex_at(provider.url)
        config = codex.codex_home / "config.toml"
        config.write_text(config.read_text().replace(str(AUTO_COMPACT_TOKENS), str(LIMIT)))
        store = tmp_path / "no-store"
        store.mkdir()
        await threadkeep("setup", "codex", "--hooks", "--yes", store=store, cwd=codex.cwd, environment=codex.environment())
        session_id = await say_to(codex, "go")
        assert await say_to(codex, "on", session_id) == session_id
    assert handed_back(provider.requests[-1]) == []
    failures = (codex.home / ".local/share/threadkeep/client-hooks/failures.jsonl").read_text().splitlines()
    assert {json.loads(line)["client"] for line in failures} == {"codex"}
